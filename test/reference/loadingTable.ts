/**
 * The table of `docs/evidence/conformance.md`: the servers that load, and the others by the first
 * thing that they ask for in vain.
 */
import type { Loading } from "./loadApart.ts";

/** Long enough for an error's first line; what follows is a stack or a remedy. */
const REASON_CHARS = 110;
/** The folder that most servers are in is left out of their names. */
const USUAL_FOLDER = /^examples\//;

export function loadingTable(loadings: ReadonlyArray<Loading>): string {
  const loaded = loadings.filter(({ loads }) => loads);
  const byReason = new Map<string, Loading[]>();
  for (const loading of loadings.filter(({ loads }) => !loads)) {
    const reason = firstReason(loading.reason ?? "");
    byReason.set(reason, [...(byReason.get(reason) ?? []), loading]);
  }
  const rows = [...byReason].toSorted(([, a], [, b]) => b.length - a.length);
  return [
    `${loaded.length} of ${loadings.length} load.`,
    "",
    "| loads, or first reason | servers | names |",
    "| --- | --- | --- |",
    row("loads", loaded),
    ...rows.map(([reason, group]) => row(reason, group)),
  ].join("\n");
}

const row = (label: string, group: ReadonlyArray<Loading>): string =>
  `| ${label} | ${group.length} | ${group.map(({ name }) => shownName(name)).join(", ")} |`;

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
