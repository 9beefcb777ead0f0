/** Medians and percentiles of measurements. Pure. */

/** NaN for an empty list. */
export const median = (values: ReadonlyArray<number>): number => percentile(values, 50);

/** Linear between the two nearest; NaN for an empty list. */
export function percentile(values: ReadonlyArray<number>, percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = ((sorted.length - 1) * percent) / 100;
  const low = sorted[Math.floor(at)];
  const high = sorted[Math.ceil(at)];
  return low === undefined || high === undefined ? NaN : low + (high - low) * (at % 1);
}

/** Three significant digits: more than any of these measurements is good for. */
export function round(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
