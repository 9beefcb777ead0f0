/**
 * A journal as people read it: one line for each turn, in order, with the state after it. Several
 * turns can share one event (group commit); each has its own line, with the event's sequence.
 * Pure; for `agents history`, `agents tail` and tests of agents.
 */
import { defined } from "../collections/defined.ts";
import type { Cause, JournalHead, TurnRecord } from "../../schemas/JournalEvent.ts";
import { endsLife } from "./endLife.ts";
import { applyState } from "./stateChange.ts";

/** `cause.kind` is also `claimed` (a host took the agent over) and `destroyed` (by no turn). */
export interface HistoryLine {
  readonly seq: number;
  /** ISO 8601, when the host wrote the event. */
  readonly time: string;
  readonly cause: Omit<TurnRecord["cause"], "kind"> & { readonly kind: string };
  /** The state after a turn that changed it; null also if it was unset. True where omitted. */
  readonly state?: unknown;
  readonly sql?: ReadonlyArray<string>;
  readonly schedules?: JournalHead["schedules"];
  readonly queue?: JournalHead["queue"];
  readonly done?: ReadonlyArray<string>;
  readonly begun?: true;
  readonly dead?: true;
  readonly error?: string;
  /** Steps that ended with this event, and their results. */
  readonly steps?: TurnRecord["steps"];
  /** Steps that the next attempt runs again, and how they failed. */
  readonly again?: TurnRecord["again"];
  /** The event undoes what earlier events stored of a turn whose host ended. */
  readonly undone?: true;
  /** The agent was restored to an earlier event (`agents restore`). */
  readonly restored?: TurnRecord["restored"];
  /** The turn ended the agent's life (`destroy`). */
  readonly destroyed?: true;
  readonly host: string;
  readonly epoch: number;
}

interface Told {
  readonly lines: ReadonlyArray<HistoryLine>;
  /** JSON text after the event; undefined: unset. */
  readonly state: string | undefined;
}

/** Which of an event's turns have a line, and what the lines leave out. */
interface WantedLines {
  /** `turn`: undefined for an event without turns. Default: all. */
  readonly isWanted?: (turn: TurnRecord | undefined, index: number) => boolean;
  /** `state`: its values, so that the earlier state is not needed. `input`: headers and bodies. */
  readonly omit?: ReadonlyArray<Omitted>;
  /** States of more UTF-16 units, as JSON, are omitted. Default: none. */
  readonly stateLengthMax?: number;
}

export const OMITTED = ["state", "input"] as const;
export type Omitted = (typeof OMITTED)[number];

/** `before`: the earlier state as JSON. Throws `CorruptFrame` if the event does not fit it. */
export function historyLines(
  seq: number,
  head: JournalHead,
  before: string | undefined,
  { isWanted, omit = [], stateLengthMax = Infinity }: WantedLines = {},
): Told {
  const omitsState = omit.includes("state");
  let state = head.kind === "destroyed" || omitsState ? undefined : before;
  // An event without turns (a claim) is one line.
  const turns: ReadonlyArray<TurnRecord | undefined> =
    head.turns.length === 0 ? [undefined] : head.turns;
  const lines: HistoryLine[] = [];
  for (const [index, turn] of turns.entries()) {
    if (turn?.state !== undefined && !omitsState) state = applyState(state, turn.state);
    if (isWanted?.(turn, index) === false) continue;
    const isOmitted = omitsState || (state?.length ?? 0) > stateLengthMax;
    const told = turn?.state === undefined ? undefined : isOmitted || valueOf(state);
    lines.push(lineOf(seq, head, { turn, state: told, isLast: index === turns.length - 1, omit }));
  }
  return { lines, state };
}

/** Whether a line of the event needs the state before it. */
export function needsStateBefore(head: JournalHead): boolean {
  const first = head.turns.find((turn) => turn.state !== undefined)?.state;
  return head.kind !== "destroyed" && first !== undefined && "splice" in first;
}

function lineOf(
  seq: number,
  head: JournalHead,
  {
    turn,
    state,
    isLast,
    omit,
  }: {
    turn: TurnRecord | undefined;
    state: unknown;
    isLast: boolean;
    omit: ReadonlyArray<Omitted>;
  },
): HistoryLine {
  // Fields of the event itself, not of one turn, are in the line of its last turn.
  const { schedules, queue } = isLast ? head : {};
  const isEnd = isLast && endsLife(head);
  const { cause, sql, done, begun, dead, ...rest }: Partial<TurnRecord> = turn ?? {};
  const { error, steps, again, undone, restored } = rest;
  return {
    seq,
    time: new Date(head.time).toISOString(),
    cause:
      cause === undefined
        ? { kind: head.kind }
        : omit.includes("input")
          ? briefCause(cause)
          : cause,
    ...defined({
      state,
      sql,
      schedules,
      queue,
      done,
      begun,
      dead,
      error,
      steps,
      again,
      undone,
      restored,
    }),
    ...(isEnd && turn !== undefined && { destroyed: true as const }),
    host: head.host,
    epoch: head.epoch,
  };
}

const valueOf = (state: string | undefined): unknown =>
  state === undefined ? null : JSON.parse(state);

/** A cause without headers and body. */
export function briefCause<C extends Partial<Cause> | { readonly kind: string }>(
  cause: C,
): Omit<C, "headers" | "body" | "bodyBase64"> {
  const { headers: _h, body: _b, bodyBase64: _64, ...rest } = cause as C & Partial<Cause>;
  return rest;
}
