/**
 * `agents export --follow`: all changes as JSON lines (`agents/followChanges`). `agents export
 * <class> <name>`: prints an agent's whole journal as JSON lines (`schemas/AgentFile`), for `agents
 * import`. Everything else is rebuilt from it: state, SQL, schedules, queue, history. The running
 * agent is not involved. If the journal was trimmed, the first line is its base
 * (`core/journal/eventOfBase`).
 */
import { Option, type Command } from "commander";
import { readFromBase } from "../../../core/journal/Beginnings.ts";
import { erasedSince } from "../../../core/journal/endLife.ts";
import { HistoryTrimmed } from "../../../core/journal/HistoryTrimmed.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { counted } from "../../../schemas/counted.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { agentFileEnd, agentFileEvent, agentFileHead } from "../../../schemas/AgentFile.ts";
import { isUnreadable } from "../../../schemas/Frame.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { baseAsEvent } from "../agents/baseAsEvent.ts";
import { findAgent } from "../agents/findAgent.ts";
import { tellLeftBehind } from "../agents/leftBehind.ts";
import { followChanges, readPosition, type FollowFrom } from "../agents/followChanges.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { parsed } from "../options/argumentParsers.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed, usage, type CliError } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export function addExport(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("export"), "[class]", "[name]")
    .description(
      "Prints an agent's whole journal as JSON lines, for agents import. With --follow, prints each turn of all agents, of one class or of one agent as a line of JSON, for other systems. Reads from the broker and does not disturb running agents.",
    )
    .option("--follow", "print turns as they are stored, from the beginning, until Ctrl-C")
    .addOption(
      new Option(
        "--from <position>",
        "with --follow: start after the line with this position, or at the end (end)",
      ).argParser(parsed(readPosition)),
    )
    .addOption(option.count("--limit <count>", "with --follow: stop after this many lines"))
    .addHelpText(
      "after",
      `
Waiting inputs and dead letters are not included.

With --follow each line is
  {position, event, turn, class, name, changed, seq, time, cause, state?, sql?, schedules?, …}
event and turn identify the turn for good; state is the state after it, if it changed. An event that
can't be read is {position, class, name, seq, unreadable}. Store the position of the last line that
you have processed, and continue with --from: no turn is missed.
Each agent's turns are printed in order. If history is trimmed, specify the archive (--archive).

Examples:
  agents export RepoAgent octocat~hello-world > agent.jsonl
  agents export --follow > changes.jsonl
  agents export RepoAgent --follow --from "$(tail -1 changes.jsonl | jq -r .position)"`,
    )
    .action((className: string | undefined, name: string | undefined, given: Given) => {
      if (given.follow === true)
        return withPorts(context, given, (ports) =>
          followChanges(ports, terminal, joins.time, { ...given, className, name }),
        );
      if (className === undefined || name === undefined)
        throw usage(
          "Specify the agent: agents export <class> <name>. For all agents: agents backup, or agents export --follow.",
        );
      if (given.from !== undefined || given.limit !== undefined)
        throw usage("--from and --limit require --follow.");
      return withPorts(context, given, (ports) =>
        exportAgent(ports, terminal, joins.time, { className, name }),
      );
    });
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly follow?: boolean;
  readonly from?: FollowFrom;
  readonly limit?: number;
}

const erasedMeanwhile = (id: AgentId): CliError =>
  failed(`${addressKey(id)} was erased while it was read, and the copy is incomplete.`);

/** Throws `CliError` if the agent does not exist or is erased, or its journal is damaged. */
async function exportAgent(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  { className, name }: { readonly className: string; readonly name: string },
): Promise<void> {
  const id = await findAgent(ports.journal, className, name);
  terminal.out(agentFileHead(id, time.nowMs()));
  let events = 0;
  let seq = 0;
  try {
    for await (const read of readFromBase(id, ports)) {
      const event = read._tag === "Event" ? read.event : baseAsEvent(read);
      if (read._tag === "Event") read.decode(); // a damaged event fails the export rather than the import
      terminal.out(agentFileEvent(event));
      seq = event.seq;
      events++;
    }
    if (await erasedSince(id, seq, ports.journal)) throw erasedMeanwhile(id);
  } catch (error) {
    if (error instanceof HistoryTrimmed) throw erasedMeanwhile(id);
    if (!isUnreadable(error)) throw error;
    throw failed(
      `The journal of ${addressKey(id)} is damaged, and the copy is incomplete: ${error.message}`,
    );
  }
  terminal.out(agentFileEnd(events));
  terminal.err(`${addressKey(id)}: ${counted(events, "event")}`);
  await tellLeftBehind(ports, terminal, { id, atSeq: seq as Sequence });
}
