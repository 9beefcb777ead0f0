/**
 * When an agent is quarantined, and for how long: pure rules. `services/workers/IsolationWard`
 * counts the ends of processes (rule 1); `services/host/Quarantine` keeps the marks (rule 2).
 *
 * 1. An agent is quarantined when, within `WINDOW_MS`, its turns have ended processes for
 *    `INPUTS_MAX` different inputs, or `ENDS_MAX` times. One poisoned input alone does not do that
 *    by the first: it is dead after its attempts, and the next input may be well.
 * 2. A quarantine lasts `FIRST_MS`, and twice as long as the one before if that ended less than
 *    `FORGOTTEN_MS` ago, up to `LONGEST_MS`.
 */
import type { QuarantineMark } from "../../schemas/QuarantineMark.ts";

/** Longer than the attempts of three inputs take, with their backoff. */
const WINDOW_MS = 10 * 60_000;
export const INPUTS_MAX = 3;
/** An input may have more attempts than this, and then waits for its last ones in quarantine. */
export const ENDS_MAX = 10;
const FIRST_MS = 10 * 60_000;
const LONGEST_MS = 24 * 3_600_000;
const FORGOTTEN_MS = 24 * 3_600_000;

/** An end of a process by a turn of the agent. */
export interface KilledProcess {
  readonly atMs: number;
  /** What tells its input from others. */
  readonly input: string;
}

/** Rule 1. Returns the ends that still count, with the new one, and whether that is too much. */
export function judgeEnds(
  before: ReadonlyArray<KilledProcess>,
  end: KilledProcess,
): { readonly ends: ReadonlyArray<KilledProcess>; readonly over: boolean } {
  const ends = [...before.filter(({ atMs }) => end.atMs - atMs <= WINDOW_MS), end];
  const inputs = new Set(ends.map(({ input }) => input)).size;
  return { ends, over: inputs >= INPUTS_MAX || ends.length >= ENDS_MAX };
}

/** Rule 2. */
export function nextMark(
  before: QuarantineMark | undefined,
  own: Pick<QuarantineMark, "kind" | "reason" | "host"> & { readonly version: string | undefined },
  nowMs: number,
): QuarantineMark {
  const isAgain = before !== undefined && nowMs - before.untilMs < FORGOTTEN_MS;
  const times = isAgain ? before.times + 1 : 1;
  const { version, ...fields } = own;
  return {
    ...fields,
    sinceMs: nowMs,
    untilMs: nowMs + Math.min(LONGEST_MS, FIRST_MS * 2 ** (times - 1)),
    times,
    ...(version !== undefined && { version }),
  };
}

/** The mark of an agent that is released: its next quarantine is a first one. */
export const releasedMark = (mark: QuarantineMark, nowMs: number): QuarantineMark => ({
  ...mark,
  untilMs: Math.min(mark.untilMs, nowMs),
  times: 0,
});

/** Whether an agent with this mark is quarantined now, where code of `version` runs. */
export const isQuarantined = (
  mark: QuarantineMark,
  nowMs: number,
  version: string | undefined,
): boolean =>
  mark.untilMs > nowMs &&
  (version === undefined || mark.version === undefined || mark.version === version);
