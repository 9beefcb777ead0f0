/**
 * What one commit takes: the turns that wrote or ended, and the outputs that wait for it. Filled
 * and emptied by `Committer`, which decides when.
 */
import type { Sequence } from "../../schemas/Address.ts";
import type { CommitTurn } from "../journal/encodeCommit.ts";
import type { Turn } from "./Turn.ts";

export type Output = (seq: Sequence) => void;

export interface Batch {
  /** Turns that wrote or ended, in order of their last `setState`: the last one's state stands. */
  readonly turns: Set<Turn>;
  /** Turns among them whose writes the next start would repeat. */
  remade: Set<Turn> | undefined;
  readonly outputs: Output[];
  /** Whether an event is stored even if nothing was written. */
  fence: boolean;
}

/** A turn's share of a commit, with the turn that it was taken from. */
export interface TurnRecord extends CommitTurn {
  readonly turn: Turn;
}

export const newBatch = (): Batch => ({
  turns: new Set(),
  remade: undefined,
  outputs: [],
  fence: false,
});

/** Runs all of them, whatever one throws; returns the first error. */
export function runOutputs(
  { outputs }: Batch,
  seq: Sequence,
): { readonly error: unknown } | undefined {
  let failure: { readonly error: unknown } | undefined;
  for (const output of outputs)
    try {
      output(seq);
    } catch (error) {
      failure ??= { error };
    }
  return failure;
}

/** Whether the batch has nothing to store. It may have outputs. */
export const isEmpty = (batch: Batch | undefined): boolean =>
  batch === undefined || (batch.turns.size === 0 && !batch.fence);

/** Whether it is the unfinished turn of a durable input, which may write again. */
export const isOpen = (turn: Turn): boolean => turn.durable && !turn.ended;
export const isInStep = ({ steps }: Turn): boolean => steps !== undefined && steps.running > 0;
/** Whether a commit should wait for it: it is in a step, or has written within the gather time. */
export const mayEndSoon = (turn: Turn): boolean =>
  isOpen(turn) && (isInStep(turn) || (turn.wroteMs !== undefined && !turn.late));

/**
 * Takes out of the turn what it has for the journal. Undefined if that is nothing; SQL that changed
 * no page (`CREATE TABLE IF NOT EXISTS`) does not count. `jobsChanged`: the commit has schedules or
 * queue items, and a turn that made them says who did; a durable one says so when it ends.
 */
export function takeRecord(
  turn: Turn,
  { pagesChanged, jobsChanged }: { readonly pagesChanged: boolean; readonly jobsChanged: boolean },
): TurnRecord | undefined {
  const { state } = turn;
  const sql = pagesChanged ? turn.sql : [];
  turn.sql = [];
  turn.wroteMs = undefined;
  turn.late = false;
  const outcome = turn.ended ? turn.outcome : undefined;
  const isTold = state !== undefined || sql.length > 0 || outcome !== undefined || turn.announced;
  // A part has a record of each unfinished turn, even without writes of its own.
  if (!isTold && !(pagesChanged && isOpen(turn)) && !(jobsChanged && !turn.durable))
    return turn.steps === undefined ? undefined : takeSteps(turn);
  turn.announced = false;
  turn.state = undefined;
  const again = outcome === undefined ? undefined : turn.steps?.takeAgain();
  const record = { turn, state, sql, outcome, told: turn.told, steps: turn.steps?.take(), again };
  turn.told = true;
  return record;
}

/** Takes the results of an unfinished turn's steps, and none of its writes. */
export function takeSteps(turn: Turn): TurnRecord | undefined {
  const steps = turn.steps?.take();
  if (steps === undefined || steps.length === 0 || turn.ended) return undefined;
  const record = { turn, state: undefined, sql: [], outcome: undefined, told: turn.told, steps };
  turn.told = true;
  return record;
}
