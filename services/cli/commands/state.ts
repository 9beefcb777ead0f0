/**
 * `agents state <class> <name> [--at …]`: prints an agent's state, now or at any point of its
 * history, rebuilt from its journal. Without `--json` it prints the state alone, with `--json` an
 * object that contains it.
 */
import type { Command } from "commander";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { withAgentAt, type AgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { at } from "../options/pointOptions.ts";
import { addTargetOptions, withoutSql, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface StateOptions extends AgentAt {
  readonly json?: boolean | undefined;
}

type Given = GivenTarget & Partial<StateOptions>;

export function addState(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("state"), "<class>", "<name>")
    .description(
      "Prints an agent's state, rebuilt from its journal. Does not touch the running agent.",
    )
    .addOption(at(joins.time))
    .addHelpText(
      "after",
      `
--json prints {class, name, seq, time, state}

Examples:
  agents state repo-agent octocat~hello-world
  agents state repo-agent octocat~hello-world --at 42
  agents state repo-agent octocat~hello-world --at 2026-03-01T09:30:00Z --json`,
    )
    .action((className: string, name: string, given: Given) =>
      withoutSql(context, given, (ports) => state(ports, terminal, { ...given, className, name })),
    );
}

/** `--json` prints `{class, name, seq, time, state}`; `state` is also null if it was never set. */
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
