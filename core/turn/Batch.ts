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
  readonly outputs: Output[];
  /** An event is stored for it, whether anything was written or not. */
  fence: boolean;
}

/** A turn's share of a commit, with the turn that it was taken from. */
export interface TurnRecord extends CommitTurn {
  readonly turn: Turn;
}

export const newBatch = (): Batch => ({ turns: new Set(), outputs: [], fence: false });

/** It holds outputs back and nothing else. */
export const isEmpty = (batch: Batch | undefined): boolean =>
  batch === undefined || (batch.turns.size === 0 && !batch.fence);

/** It has an input of its own to finish and goes on writing. */
export const isOpen = (turn: Turn): boolean => turn.durable && !turn.ended;
export const mayEndSoon = (turn: Turn): boolean => isOpen(turn) && !turn.late;

/** A turn in it has written, and is given time to end. */
export function waitsForEnd({ turns }: Batch): boolean {
  for (const turn of turns) if (mayEndSoon(turn)) return true;
  return false;
}

/**
 * What the turn has to tell the journal now, taken from it; undefined when that is nothing. SQL
 * that could have written and changed no page (`CREATE TABLE IF NOT EXISTS`) is nothing.
 */
export function takeRecord(turn: Turn, pagesChanged: boolean): TurnRecord | undefined {
  const { state } = turn;
  const sql = pagesChanged ? turn.sql : [];
  turn.sql = [];
  turn.wroteMs = undefined;
  turn.late = false;
  const outcome = turn.ended ? turn.outcome : undefined;
  if (state === undefined && sql.length === 0 && outcome === undefined && !turn.announced)
    return undefined;
  turn.announced = false;
  turn.state = undefined;
  const record = { turn, state, sql, outcome, told: turn.told };
  turn.told = true;
  return record;
}
