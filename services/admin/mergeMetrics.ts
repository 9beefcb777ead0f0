/**
 * Merges the metrics of several processes into one text: each series carries its source's labels,
 * and each family appears once, with the help and type of its first source. Reads only the format
 * that `PrometheusMetrics` prints.
 */
import type { MetricLabels } from "../../core/telemetry/Metrics.ts";
import { printLabels } from "./PrometheusMetrics.ts";

export interface LabelledMetrics {
  /** Labels for each of its series. No series has a label of the same name. */
  readonly labels: MetricLabels;
  readonly text: string;
}

export function mergeMetrics(sources: ReadonlyArray<LabelledMetrics>): string {
  /** Help, type and samples by family name. */
  const families = new Map<string, string[]>();
  for (const { labels, text } of sources) {
    const added = printLabels(labels).slice(1, -1);
    for (const block of text.split(/^(?=# HELP )/m)) {
      const [help = "", type = "", ...samples] = block.trimEnd().split("\n");
      const name = help.split(" ")[2];
      if (name === undefined) continue; // the text is empty
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
