/**
 * `agents export <class> <name>`: prints an agent's whole journal as JSON lines
 * (`schemas/AgentFile`), for `agents import`. Everything else of the agent is rebuilt from it:
 * state, SQL, schedules, queue, history. The running agent is not involved. Where the journal was
 * trimmed, the first line is its base (`core/journal/eventOfBase`).
 */
import type { Command } from "commander";
import { readFromBase } from "../../../core/journal/Beginnings.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { addressKey } from "../../../schemas/Address.ts";
import { agentFileEnd, agentFileEvent, agentFileHead } from "../../../schemas/AgentFile.ts";
import { CorruptFrame } from "../../../schemas/Frame.ts";
import { decodeEvent } from "../../../schemas/JournalEvent.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import { baseAsEvent } from "../agents/baseAsEvent.ts";
import { findAgent } from "../agents/findAgent.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import {
  addTargetOptions,
  CLASS_HELP,
  NAME_HELP,
  withPorts,
  type GivenTarget,
} from "../options/targetOptions.ts";
import { failed } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export function addExport(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("export"))
    .description(
      "Prints an agent's whole journal as JSON lines: all that it is and was, for agents import. Reads the broker; the agent goes on meanwhile.",
    )
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .addHelpText(
      "after",
      `
Inputs that still wait for the agent, and its dead letters, are not in it.

Example:
  agents export RepoAgent octocat~hello-world > agent.jsonl`,
    )
    .action((className: string, name: string, given: GivenTarget) =>
      withPorts(context, given, (ports) =>
        exportAgent(ports, terminal, joins.time, { className, name }),
      ),
    );
}

/** Throws `CliError` where there is no such agent, or its journal is damaged. */
export async function exportAgent(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  { className, name }: { readonly className: string; readonly name: string },
): Promise<void> {
  const id = await findAgent(ports.journal, className, name);
  terminal.out(agentFileHead(id, time.nowMs()));
  let events = 0;
  try {
    for await (const read of readFromBase(id, ports)) {
      const event = read._tag === "Event" ? read.event : baseAsEvent(read);
      decodeEvent(event.data); // fails now instead of at the import where the event is damaged
      terminal.out(agentFileEvent(event));
      events++;
    }
  } catch (error) {
    if (!(error instanceof CorruptFrame)) throw error;
    throw failed(
      `The journal of ${addressKey(id)} is damaged, the copy is not complete: ${error.message}`,
    );
  }
  terminal.out(agentFileEnd(events));
  terminal.err(`${addressKey(id)}: ${events} ${events === 1 ? "event" : "events"}`);
}
