/**
 * The metrics port: numbers for operators. Plain functions, cheap enough for the per-commit path:
 * look an instrument up once, then only bump it. `services/admin/PrometheusMetrics` keeps and
 * prints them; `noMetrics` drops them. `AgentMetrics` names the ones that the system has.
 */

/** Label names and values, one series for each set. Few values: a series is never freed. */
export type MetricLabels = Readonly<Record<string, string>>;

export interface MetricsShape {
  /** A count that grows by the returned function (default 1). Same name and labels: same series. */
  readonly counter: (name: string, help: string, labels?: MetricLabels) => (by?: number) => void;
  /**
   * A value that goes up and down, read when metrics are collected. A read that throws, rejects or
   * is slow leaves the series out of that look. Of two with one name, the later one is read.
   */
  readonly gaugeFrom: (name: string, help: string, read: () => number | Promise<number>) => void;
  /** A distribution. `bounds`: upper bounds of buckets, ascending. The result observes a value. */
  readonly histogram: (
    name: string,
    help: string,
    bounds: ReadonlyArray<number>,
    labels?: MetricLabels,
  ) => (value: number) => void;
}

const ignore = (): void => {};

/** Counts nothing: for tests and tools. */
export const noMetrics: MetricsShape = {
  counter: () => ignore,
  gaugeFrom: ignore,
  histogram: () => ignore,
};
