/**
 * Puts several processes' metrics into one text: each series under its source's labels, and each family once, with
 * the help and type of the first that has it. Reads what `PrometheusMetrics` prints, and only that.
 */
import type { MetricLabels } from "../../core/telemetry/Metrics.ts";
import { printLabels } from "./PrometheusMetrics.ts";

export interface LabelledMetrics {
  /** Of each of its series; no name that a series has itself. */
  readonly labels: MetricLabels;
  readonly text: string;
}

export function mergeMetrics(sources: ReadonlyArray<LabelledMetrics>): string {
  /** Help, type and samples by name. */
  const families = new Map<string, string[]>();
  for (const { labels, text } of sources) {
    const added = printLabels(labels).slice(1, -1);
    for (const block of text.split(/^(?=# HELP )/m)) {
      const [help = "", type = "", ...samples] = block.trimEnd().split("\n");
      const name = help.split(" ")[2];
      if (name === undefined) continue; // there are no metrics in it
      const family = families.get(name) ?? [help, type];
      families.set(name, family);
      for (const sample of samples) family.push(labelled(sample, added));
    }
  }
  return [...families.values()].flat().join("\n") + "\n";
}

/** `name{a="1"} 5` or `name 5`: a name has neither brace nor space. */
function labelled(sample: string, added: string): string {
  if (added === "") return sample;
  const at = sample.search(/[{ ]/);
  const name = sample.slice(0, at);
  return sample[at] === "{"
    ? `${name}{${added},${sample.slice(at + 1)}`
    : `${name}{${added}}${sample.slice(at)}`;
}
