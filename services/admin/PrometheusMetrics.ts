/**
 * Keeps metrics in memory and prints them in Prometheus's text format (version 0.0.4). Incrementing
 * is an addition to a number in a closure. All formatting happens in `render`, which `AdminServer`
 * calls.
 */
import type { MetricLabels, MetricsShape } from "../../core/telemetry/Metrics.ts";

/** A read gauge that takes longer is left out: a scrape usually times out after 10 s. */
const READ_TIMEOUT_MS = 2_000;

export const PROMETHEUS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

interface Series {
  readonly labels: MetricLabels;
  /** Sample lines without the family's name: suffix, extra labels, value. */
  samples: () => Promise<ReadonlyArray<Sample>> | ReadonlyArray<Sample>;
  readonly bump: (value: number) => void;
}
interface Sample {
  readonly suffix: string;
  readonly labels: MetricLabels;
  readonly value: number;
}
interface Family {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly series: Map<string, Series>;
}

export class PrometheusMetrics implements MetricsShape {
  private readonly families = new Map<string, Family>();

  counter(name: string, help: string, labels: MetricLabels = {}): (by?: number) => void {
    const { bump } = this.series(name, "counter", help, labels, () => {
      let total = 0;
      return {
        labels,
        bump: (by) => {
          if (!(by >= 0)) throw new RangeError(`counter ${name} can't grow by ${by}`);
          total += by;
        },
        samples: () => [{ suffix: "", labels, value: total }],
      };
    });
    return (by = 1) => bump(by);
  }

  gaugeFrom(name: string, help: string, read: () => number | Promise<number>): void {
    this.readFrom(name, "gauge", help, read);
  }

  /** As `gaugeFrom`, of a value that only grows and is counted elsewhere. */
  counterFrom(name: string, help: string, read: () => number): void {
    this.readFrom(name, "counter", help, read);
  }

  private readFrom(
    name: string,
    kind: Family["kind"],
    help: string,
    read: () => number | Promise<number>,
  ): void {
    const labels = {};
    const series = this.series(name, kind, help, labels, () => ({
      labels,
      bump: () => {},
      samples: () => [],
    }));
    series.samples = async () => {
      const value = await within(READ_TIMEOUT_MS, read);
      return value === undefined ? [] : [{ suffix: "", labels, value }];
    };
  }

  histogram(
    name: string,
    help: string,
    bounds: ReadonlyArray<number>,
    labels: MetricLabels = {},
  ): (value: number) => void {
    return this.series(name, "histogram", help, labels, () => histogramSeries(bounds, labels)).bump;
  }

  /** All series with their present values, families in the order of their creation. */
  async render(): Promise<string> {
    const parts = [...this.families].map(async ([name, family]) => {
      const samples = await Promise.all([...family.series.values()].map((s) => s.samples()));
      const lines = samples.flat().map((sample) => printSample(name, sample));
      return [
        `# HELP ${name} ${escapeHelp(family.help)}`,
        `# TYPE ${name} ${family.kind}`,
        ...lines,
      ];
    });
    return (await Promise.all(parts)).flat().join("\n") + "\n";
  }

  private series(
    name: string,
    kind: Family["kind"],
    help: string,
    labels: MetricLabels,
    make: () => Series,
  ): Series {
    checkNames(name, labels);
    let family = this.families.get(name);
    if (family === undefined) this.families.set(name, (family = { kind, help, series: new Map() }));
    if (family.kind !== kind)
      throw new RangeError(`metric ${name} is a ${family.kind}, not a ${kind}`);
    const key = printLabels(labels);
    let series = family.series.get(key);
    if (series === undefined) family.series.set(key, (series = make()));
    return series;
  }
}

function histogramSeries(bounds: ReadonlyArray<number>, labels: MetricLabels): Series {
  const counts = Array.from({ length: bounds.length + 1 }, () => 0);
  let sum = 0;
  return {
    labels,
    bump: (value) => {
      let i = 0;
      while (i < bounds.length && value > bounds[i]!) i++;
      counts[i]!++;
      sum += value;
    },
    samples: () => {
      let total = 0;
      const buckets = counts.map((count, i) => {
        total += count;
        const le = i < bounds.length ? String(bounds[i]) : "+Inf";
        return { suffix: "_bucket", labels: { ...labels, le }, value: total };
      });
      return [
        ...buckets,
        { suffix: "_sum", labels, value: sum },
        { suffix: "_count", labels, value: total },
      ];
    },
  };
}

/** Returns undefined when the read fails or takes longer than `ms`. */
async function within(
  ms: number,
  read: () => number | Promise<number>,
): Promise<number | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((done) => {
    timer = setTimeout(done, ms, undefined);
  });
  try {
    return await Promise.race([Promise.resolve().then(read), late]);
  } catch {
    // The value is missing from this scrape only. What it measures reports its own failures.
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

function checkNames(name: string, labels: MetricLabels): void {
  if (!/^[a-z_][a-z0-9_]*$/.test(name)) throw new RangeError(`"${name}" is not a metric name`);
  for (const label of Object.keys(labels))
    if (!/^[a-z_][a-z0-9_]*$/.test(label) || label === "le")
      throw new RangeError(`"${label}" is not a label name (metric ${name})`);
}

const printSample = (name: string, { suffix, labels, value }: Sample): string =>
  `${name}${suffix}${printLabels(labels)} ${Number.isFinite(value) ? value : printSpecial(value)}`;

const printSpecial = (value: number): string =>
  Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";

/** `{a="1",b="2"}`; empty when there are no labels. */
export function printLabels(labels: MetricLabels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

const escapeHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const escapeLabel = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');
