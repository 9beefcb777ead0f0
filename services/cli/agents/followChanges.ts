/**
 * `agents export --follow`: prints each turn of all agents as a line of JSON, starting at a
 * position, and then as turns are stored (`core/changes/changes`). For other systems, which store
 * the position of the last line that they have processed.
 *
 * 1. The lines of one event are printed together. Only the last has the position after the event;
 *    `event` and `turn` identify a repeated line.
 * 2. If the broker goes away, reading starts again at the last event.
 * 3. An event that is damaged, or follows one that its state needs, is a line with the reason
 *    (`unreadable`), so that one agent holds up no other. An event of a newer release is not
 *    damaged, and ends the command.
 */
import { BrokerUnavailable } from "../../../core/bus/Bus.ts";
import { changes, type Change, type ChangesWanted } from "../../../core/changes/changes.ts";
import {
  decodePosition,
  encodePosition,
  type ChangePosition,
} from "../../../core/changes/ChangePosition.ts";
import { decodeStored } from "../../../core/journal/decodeStored.ts";
import type { HistoryLine } from "../../../core/journal/historyLines.ts";
import { HistoryTrimmed } from "../../../core/journal/HistoryTrimmed.ts";
import { ArchiveUnavailable } from "../../../core/retention/Archive.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { addressKey } from "../../../schemas/Address.ts";
import { CorruptFrame, UnknownVersion } from "../../../schemas/Frame.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { failed, usage } from "../terminal/CliError.ts";
import { stopSignals } from "../terminal/stopSignals.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { address, resolveClass } from "./findAgent.ts";
import { States } from "./States.ts";
import { sleep } from "../../../core/time/sleep.ts";

/** Pause before an unreachable broker is tried again. */
const AGAIN_MS = 1_000;
const WHAT_CHANGED = ["state", "sql", "schedules", "queue"] as const;

/** Where to start: after a line's position, or at the end. */
export type FollowFrom = ChangePosition | "end";

interface FollowOptions {
  readonly className: string | undefined;
  readonly name: string | undefined;
  /** Undefined: from the beginning. */
  readonly from?: FollowFrom | undefined;
  /** Ends after this many lines. Undefined: ends at a signal. */
  readonly limit?: number | undefined;
}

/**
 * Resolves at a signal or after `limit` lines. Throws `CliError` for a position of another
 * installation, for an event of a newer release, if the archive is unreachable or damaged, and if
 * history is trimmed while it is read; each says where to continue.
 */
export async function followChanges(
  ports: ReadPorts,
  terminal: Terminal,
  time: TimeShape,
  options: FollowOptions,
): Promise<void> {
  let position = await startOf(ports, options.from);
  const ended = new AbortController();
  const signals = stopSignals(time);
  void signals.stopped.then(() => ended.abort());
  const { signal } = ended;
  const sources = { ...ports.changes, journal: ports.journal, time };
  const wanted = { ...(await filterOf(ports, options)), signal };
  const printer = new Printer(ports, terminal, options.limit);
  let isAway = false;
  try {
    while (!signal.aborted) {
      try {
        for await (const change of changes(sources, position, wanted)) {
          isAway = false;
          if (await printer.print(change)) return;
          position = change.after;
        }
      } catch (error) {
        if (!(error instanceof BrokerUnavailable)) throw toCliError(error, position);
        if (!isAway) terminal.err(`The broker is unreachable (${error.message}). Waiting for it.`);
        isAway = true;
        await sleep(time, AGAIN_MS);
      }
    }
  } finally {
    signals.release();
  }
}

async function startOf(
  { changes: { streams } }: ReadPorts,
  from: FollowFrom | undefined,
): Promise<ChangePosition> {
  const last = (await streams()).map(({ end }) => end);
  if (from === undefined) return { seqs: last.map(() => 0) };
  if (from === "end") return { seqs: last };
  if (from.seqs.length !== last.length) throw usage(`--from: ${POSITION_HINT}`);
  return from;
}

const POSITION_HINT = 'Use the "position" of a line that this installation printed, or "end".';

/** Throws `CliError`. */
export function readPosition(text: string): FollowFrom {
  if (text === "end") return text;
  const position = decodePosition(text);
  if (position === undefined) throw usage(POSITION_HINT);
  return position;
}

async function filterOf(
  { journal }: ReadPorts,
  { className, name }: FollowOptions,
): Promise<Omit<ChangesWanted, "signal">> {
  if (className === undefined) return {};
  const stored = await resolveClass(journal, className);
  return { className: stored, ...(name !== undefined && { name: address(stored, name).name }) };
}

class Printer {
  private readonly states: States;
  private left: number;

  constructor(
    private readonly ports: ReadPorts,
    private readonly terminal: Terminal,
    limit = Infinity,
  ) {
    this.states = new States(ports);
    this.left = limit;
  }

  /** True once no more lines are wanted. */
  async print(change: Change): Promise<boolean> {
    const { id, before, after } = change;
    const lines = await this.linesOf(change);
    for (const [turn, line] of lines.entries()) {
      const isLast = turn === lines.length - 1;
      const position = encodePosition(isLast ? after : before);
      this.terminal.out(JSON.stringify({ position, class: id.class, name: id.name, ...line }));
      if (--this.left <= 0) return true;
    }
    return false;
  }

  private async linesOf(change: Change): Promise<ReadonlyArray<object>> {
    const { id, event } = change;
    try {
      const { head } = decodeStored(event, addressKey(id));
      this.noteGap(change, head.after ?? 0);
      return (await this.states.tell(id, event)).map((line, turn) => {
        const changed = whatChanged(line, head.pages !== undefined);
        return { event: head.id, turn, changed, ...line };
      });
    } catch (error) {
      if (!(error instanceof CorruptFrame)) throw error;
      this.terminal.err(`${error.message}. The line of event ${event.seq} has no turn.`);
      return [{ seq: event.seq, unreadable: error.message }]; // rule 3
    }
  }

  /** Events were trimmed, and no configured archive has them. */
  private noteGap({ id, before }: Change, after: number): void {
    const { catchUp, seqs } = before;
    const key = addressKey(id);
    const group = this.ports.changes.groupOf(id);
    const last = catchUp?.agent === key ? catchUp.seq : (seqs[group] ?? 0);
    if (catchUp === undefined || after <= last) return;
    this.terminal.err(
      `${key}: the history up to event ${after} was trimmed. If it was archived, specify the archive (--archive).`,
    );
  }
}

function toCliError(error: unknown, position: ChangePosition): unknown {
  const known =
    error instanceof CorruptFrame || // a part of the archive
    error instanceof UnknownVersion ||
    error instanceof ArchiveUnavailable ||
    error instanceof HistoryTrimmed;
  return known
    ? failed(
        `${error.message.replace(/\.$/, "")}. Everything before it was printed. Continue with --from ${encodePosition(position)}`,
      )
    : error;
}

/**
 * An end removes everything. A restore, and the undo of a turn whose host ended, change rows
 * without a statement. `hasPages`: the event has pages of the database.
 */
function whatChanged(line: HistoryLine, hasPages: boolean): ReadonlyArray<string> {
  const ends = line.destroyed === true || line.cause.kind === "destroyed";
  const putsBack = hasPages && (line.restored !== undefined || line.undone === true);
  return WHAT_CHANGED.filter(
    (what) => ends || line[what] !== undefined || (what === "sql" && putsBack),
  );
}
