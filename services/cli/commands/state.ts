/**
 * `agents state <class> <name> [--at …]`: an agent's state, now or at any point of its history,
 * rebuilt from its journal. The state alone for people, an object around it with `--json`.
 */
import type { ReadPorts } from "../../wiring/Joins.ts";
import type { Terminal } from "../Terminal.ts";
import { withAgentAt, type AgentAt } from "../withAgentAt.ts";

export interface StateOptions extends AgentAt {
  readonly json: boolean;
}

/** `--json` prints `{class, name, seq, time, state}`; `state` is null also when it was never set. */
export const state = (ports: ReadPorts, terminal: Terminal, options: StateOptions): Promise<void> =>
  withAgentAt(ports, options, (id, agent) => {
    const time = new Date(agent.time).toISOString();
    if (options.json) {
      const { class: className, name } = id;
      const value = agent.hasState ? agent.state : null;
      terminal.out(JSON.stringify({ class: className, name, seq: agent.seq, time, state: value }));
      return;
    }
    if (agent.hasState) terminal.out(JSON.stringify(agent.state, undefined, 2));
    else terminal.err("The state was never set.");
    terminal.err(`as of event ${agent.seq}, ${time}`);
  });
