/**
 * `agents history <class> <name>`: what happened to an agent and why, turn by turn, from its journal
 * alone. Several turns can share one event (group commit); each has a line of its own, with the
 * event's sequence.
 */
import type { Sequence } from "../../../schemas/Address.ts";
import { decodeEvent, type JournalHead, type TurnRecord } from "../../../schemas/JournalEvent.ts";
import { applyState } from "../../../core/turn/stateChange.ts";
import { findAgent } from "../findAgent.ts";
import type { ReadPorts } from "../Joins.ts";
import type { Terminal } from "../Terminal.ts";

/** One line of `--json`. `cause.kind` is also `claimed` (a host took the agent over) and `destroyed`. */
export interface HistoryLine {
  readonly seq: number;
  /** ISO 8601, when the host wrote the event. */
  readonly time: string;
  readonly cause: Omit<TurnRecord["cause"], "kind"> & { readonly kind: string };
  /** The state after the turn, where the turn changed it; null also when it was unset. */
  readonly state?: unknown;
  readonly sql?: ReadonlyArray<string>;
  readonly schedules?: JournalHead["schedules"];
  readonly queue?: JournalHead["queue"];
  readonly done?: ReadonlyArray<string>;
  readonly begun?: true;
  readonly dead?: true;
  readonly error?: string;
  readonly host: string;
  readonly epoch: number;
}

export interface HistoryOptions {
  readonly className: string;
  readonly name: string;
  readonly json: boolean;
  /** Only the last so many lines. */
  readonly limit: number | undefined;
  /** Only events from this sequence on. */
  readonly fromSeq: number | undefined;
}

export async function history(
  ports: ReadPorts,
  terminal: Terminal,
  options: HistoryOptions,
): Promise<void> {
  const id = await findAgent(ports.journal, options.className, options.name);
  const print = (line: HistoryLine): void =>
    terminal.out(options.json ? JSON.stringify(line) : forPeople(line));
  const kept: HistoryLine[] = [];
  let state: string | undefined;
  // From the first event, whatever is shown: states are written as changes of the one before.
  for await (const stored of ports.journal.read(id, { fromSeq: 1 as Sequence })) {
    const { head } = decodeEvent(stored.data);
    if (head.kind === "destroyed") state = undefined;
    for (const [index, turn] of turnsOf(head).entries()) {
      if (turn?.state !== undefined) state = applyState(state, turn.state);
      if (stored.seq < (options.fromSeq ?? 0)) continue;
      const line = lineOf(stored.seq, head, turn, state, index === head.turns.length - 1);
      if (options.limit === undefined) print(line);
      else if (kept.push(line) > options.limit) kept.shift();
    }
  }
  for (const line of kept) print(line);
}

/** An event without turns (a claim) is shown as one line. */
const turnsOf = (head: JournalHead): ReadonlyArray<TurnRecord | undefined> =>
  head.turns.length === 0 ? [undefined] : head.turns;

function lineOf(
  seq: number,
  head: JournalHead,
  turn: TurnRecord | undefined,
  state: string | undefined,
  isLast: boolean,
): HistoryLine {
  // What belongs to the event and not to one turn is shown with its last.
  const whole = isLast || turn === undefined ? head : undefined;
  return {
    seq,
    time: new Date(head.time).toISOString(),
    cause: turn?.cause ?? { kind: head.kind },
    ...(turn?.state !== undefined && {
      state: state === undefined ? null : (JSON.parse(state) as unknown),
    }),
    ...(turn?.sql !== undefined && { sql: turn.sql }),
    ...(whole?.schedules !== undefined && { schedules: whole.schedules }),
    ...(whole?.queue !== undefined && { queue: whole.queue }),
    ...(turn?.done !== undefined && { done: turn.done }),
    ...(turn?.begun !== undefined && { begun: turn.begun }),
    ...(turn?.dead !== undefined && { dead: turn.dead }),
    ...(turn?.error !== undefined && { error: turn.error }),
    host: head.host,
    epoch: head.epoch,
  };
}

/** Characters of a state or a statement that are shown; `--json` has all. */
const SHOWN_MAX = 200;

function forPeople(line: HistoryLine): string {
  const { cause } = line;
  const what = [cause.kind, cause.provider, cause.type].filter((part) => part !== undefined);
  const attempt = cause.attempt === undefined ? "" : `, attempt ${cause.attempt}`;
  const detail = (name: string, value: unknown): string[] =>
    value === undefined ? [] : [`    ${name.padEnd(10)}${short(value)}`];
  return [
    `${line.seq}  ${line.time}  ${what.join(" ")}${attempt}  (${line.host}, epoch ${line.epoch})`,
    ...detail("input", cause.id),
    ...detail("state", line.state),
    ...(line.sql ?? []).flatMap((statement) =>
      detail("sql", statement.replace(/\s+/g, " ").trim()),
    ),
    ...detail("schedules", line.schedules),
    ...detail("queue", line.queue),
    ...detail("error", line.error),
    ...(line.begun ? ["    not done: the turn went on after this commit"] : []),
    ...(line.dead ? ["    dead: attempts exhausted; the input lies in the dead letters"] : []),
  ].join("\n");
}

function short(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}… (--json shows all)` : text;
}
