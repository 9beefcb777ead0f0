/**
 * Where each step of a workflow instance stands in its graph: rows are the results that `run` had
 * received, and steps that were open at the same time stand in lanes beside each other. Pure; feeds
 * `RecordedRun`.
 *
 * 1. A step begins in the row after the last result that `run` had received when it asked for the
 *    step (`StepRecord.after`), and reaches to the row of its own result; without one, to the last
 *    row.
 * 2. If no other step is open, a step stands in the first lane. Otherwise it takes the lane of the
 *    step whose result preceded it, if that is free, or else the first free lane.
 */
import type { StepRecord } from "./RunTable.ts";

export interface StepPlace {
  /** From 0. */
  readonly lane: number;
  /** The lane of the step whose result let it begin. Absent: `run` began with it. */
  readonly from?: number;
  /** From 1. */
  readonly row: number;
  /** The row that the step ends before. */
  readonly rowEnd: number;
}

/** `steps`: all of an instance, in the order in which they began, without those of undoing. */
export function stepLanes(
  steps: ReadonlyArray<Pick<StepRecord, "after" | "endedAt">>,
): ReadonlyArray<StepPlace> {
  const results = steps.reduce(
    (most, { after, endedAt }) => Math.max(most, after, endedAt ?? 0),
    0,
  );
  /** The lane of each step that has ended, by the number of its result. */
  const laneOf = new Map<number, number>();
  /** The row from which each lane is free. */
  const freeFrom: number[] = [];
  return steps.map(({ after, endedAt }) => {
    const row = after + 1;
    const rowEnd = Math.max(row, endedAt ?? results + 1) + 1;
    const isFree = (lane: number | undefined): lane is number =>
      lane !== undefined && (freeFrom[lane] ?? 0) <= row;
    const before = laneOf.get(after);
    const isAlone = freeFrom.every((from) => from <= row);
    let lane = !isAlone && isFree(before) ? before : freeFrom.findIndex((from) => from <= row);
    if (lane < 0) lane = freeFrom.length;
    freeFrom[lane] = rowEnd;
    if (endedAt !== null) laneOf.set(endedAt, lane);
    return { lane, ...(before !== undefined && { from: before }), row, rowEnd };
  });
}
