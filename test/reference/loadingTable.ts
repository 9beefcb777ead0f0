/** The table of `docs/evidence/conformance.md`: servers that load, and what others lack. */
import type { Loading } from "./loadApart.ts";

/** A server, whether it loads, and what it needs (`needsOf`). */
export interface LoadingRow extends Loading {
  readonly needs: ReadonlyArray<string>;
}

/** Long enough for an error's first line; what follows is a stack or a remedy. */
const REASON_CHARS = 110;
/** The folder that most servers are in is left out of their names. */
const USUAL_FOLDER = /^examples\//;

/** With the sums in a sentence above it. */
export function loadingTable(loadings: ReadonlyArray<LoadingRow>): string {
  const loaded = loadings.filter(({ loads }) => loads);
  const plain = loadings.filter(({ needs }) => needs.length === 0);
  const plainLoaded = plain.filter(({ loads }) => loads);
  const byReason = new Map<string, LoadingRow[]>();
  for (const loading of loadings.filter(({ loads }) => !loads)) {
    const reason = firstReason(loading.reason ?? "");
    byReason.set(reason, [...(byReason.get(reason) ?? []), loading]);
  }
  const rows = [...byReason].toSorted(([, a], [, b]) => b.length - a.length);
  return [
    `${loaded.length} of ${loadings.length} load. ` +
      `Of the ${plain.length} that need neither a service of the platform or of a vendor, nor chat, think or voice, ${plainLoaded.length} load.`,
    "",
    "| loads, or first reason | servers | names | need, which is not here |",
    "| --- | --- | --- | --- |",
    row("loads", loaded),
    ...rows.map(([reason, group]) => row(reason, group)),
  ].join("\n");
}

function row(label: string, group: ReadonlyArray<LoadingRow>): string {
  const names = group.map(({ name }) => shownName(name)).join(", ");
  return `| ${label} | ${group.length} | ${names} | ${label === "loads" ? "" : sharedNeeds(group)} |`;
}

/** What all of a group need, then what some do. */
function sharedNeeds(group: ReadonlyArray<LoadingRow>): string {
  const all = [...new Set(group.flatMap((each) => each.needs))];
  const isOfAll = (need: string): boolean => group.every((each) => each.needs.includes(need));
  const some = all.filter((need) => !isOfAll(need));
  const texts = [
    ...all.filter(isOfAll),
    ...(some.length === 0 ? [] : [`some: ${some.join(", ")}`]),
  ];
  return texts.join(", ") || "nothing";
}

export const shownName = (name: string): string =>
  name.replace(USUAL_FOLDER, "").replace("/", ": ");

/** The sentence that says what is missing, without the place that imports it. */
export function firstReason(reason: string): string {
  const known =
    /there is no "[^"]+"|"[^"]+" has no \S+|Cannot find (?:package|module) '[^']+'/.exec(reason);
  const [line = ""] = (known?.[0] ?? reason.replace(/^\S+: failed while loading\n +/, "")).split(
    "\n",
  );
  return line.slice(0, REASON_CHARS).replaceAll("|", "\\|");
}
