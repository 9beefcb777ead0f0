/**
 * `agents fork <class> <name> <new name> [--at]`: creates a second agent from a point of an agent's
 * history. The two are independent from then on. Only the new agent's journal is written; the first
 * agent is not involved.
 *
 * 1. The whole part of the journal is read before the first event is written, so that a damaged one
 *    changes nothing.
 * 2. An existing agent of the new name is never overwritten.
 * 3. As after `agents import`, the schedules are armed and queued items run, so that both agents
 *    run them.
 */
import type { Command } from "commander";
import { readFromBase, trimmedBefore } from "../../../core/journal/Beginnings.ts";
import { HistoryTrimmed } from "../../../core/journal/HistoryTrimmed.ts";
import { endsLife } from "../../../core/journal/endLife.ts";
import { checkNothingIsMissing } from "../../../core/journal/rebuildAgent.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { counted } from "../../../schemas/counted.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { isUnreadable } from "../../../schemas/Frame.ts";
import { decodeEvent, type JournalHead } from "../../../schemas/JournalEvent.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { baseAsEvent } from "../agents/baseAsEvent.ts";
import { copyAgent } from "../agents/copyAgent.ts";
import { tellLeftBehind } from "../agents/leftBehind.ts";
import { inPart } from "../agents/newJournal.ts";
import { address, findAgent } from "../agents/findAgent.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { parsed, readName } from "../options/argumentParsers.ts";
import { at as atOption, describePoint, type Point } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed, notFound, usage } from "../terminal/CliError.ts";
import { endedBySignal } from "../terminal/stopSignals.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface ForkOptions {
  readonly className: string;
  readonly name: string;
  readonly newName: string;
  /** Undefined: now. */
  readonly at?: Point | undefined;
  readonly json?: boolean | undefined;
}

type Given = GivenTarget & Partial<ForkOptions>;

const SAME_NAME = "The fork needs a name of its own.";
/** Stands for no event. */
const NONE = 0 as Sequence;

export function addFork(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("fork"), "<class>", "<name>")
    .description(
      "Copies an agent, as it is or was at a point of its history, to a new name: state, SQL, queue, schedules and history. The original is not changed. Both agents run the schedules and queued items.",
    )
    .argument("<new name>", "name of the fork", parsed(readName))
    .addOption(atOption(joins.time))
    .addHelpText(
      "after",
      `
Schedules that were due in the meantime run at once, and unsent mail and webhooks are sent by both.
Where that does harm, copy the agent to a test installation (agents export, then agents import).

Examples:
  agents fork RepoAgent octocat~hello-world before-the-bug --at 1041
  agents fork RepoAgent octocat~hello-world yesterday --at 2026-03-01T09:30:00Z`,
    )
    .action((className: string, name: string, newName: string, given: Given) => {
      if (name === newName) throw usage(SAME_NAME);
      return withPorts(context, given, (ports) =>
        endedBySignal(joins.time, inPart(`${className}/${newName}`), () =>
          fork(ports, terminal, joins.time, { ...given, className, name, newName }),
        ),
      );
    });
}

/**
 * Throws `CliError` if the first agent had no event at the point, its journal is damaged, or an
 * agent of the new name exists.
 */
export async function fork(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "id" | "nowMs">,
  { className, name, newName, at: point = {}, json }: ForkOptions,
): Promise<void> {
  const from = await findAgent(ports.journal, className, name);
  const id = address(from.class, newName);
  if (id.name === from.name) throw usage(SAME_NAME);
  const toSeq = await check(ports, from, point);
  const { events, timers } = await copyAgent(ports, ports, time, {
    from,
    to: id,
    toSeq,
    advice: "Use another name, or erase it first (agents erase).",
  });
  if (events === 0)
    throw failed(`${addressKey(from)} was erased while it was copied. Nothing was written.`);
  const done = { class: id.class, name: id.name, seq: toSeq, events, timers };
  if (json) terminal.out(JSON.stringify(done));
  else
    terminal.out(
      `${addressKey(id)} was forked from ${addressKey(from)} at sequence ${toSeq}: ${counted(events, "event")}, ${counted(timers, "timer")} armed.`,
    );
  await tellLeftBehind(ports, terminal, { id: from, atSeq: toSeq });
}

/** Rule 1. Returns the sequence of the last event to copy. Throws `CliError`. */
async function check(ports: ReadPorts, id: AgentId, point: Point): Promise<Sequence> {
  let last: { readonly seq: Sequence; readonly head: JournalHead } | undefined;
  try {
    for await (const read of readFromBase(id, ports, { toSeq: point.atSeq })) {
      const { seq, data } = read._tag === "Event" ? read.event : baseAsEvent(read);
      const { head } = read._tag === "Event" ? read.decode() : decodeEvent(data);
      if (point.atTimeMs !== undefined && head.time > point.atTimeMs) break;
      checkNothingIsMissing({ seq: last?.seq ?? NONE }, seq, head.after);
      last = { seq, head };
    }
  } catch (error) {
    if (error instanceof HistoryTrimmed) throw notFound(error.message);
    if (!isUnreadable(error)) throw error;
    throw failed(
      `The journal of ${addressKey(id)} is damaged, and nothing was written: ${error.message}`,
    );
  }
  const trimmed = last === undefined ? await trimmedBefore(id, ports.journal) : undefined;
  if (trimmed !== undefined) throw notFound(trimmed.message);
  if (last !== undefined && !endsLife(last.head)) return last.seq;
  const when = describePoint(point);
  const what = last === undefined ? "had no event" : when === "" ? "has ended" : "had ended";
  throw notFound(`${addressKey(id)} ${what}${when}. "agents history" lists its events.`);
}
