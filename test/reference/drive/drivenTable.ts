/** The table of what was driven in `docs/evidence/conformance.md`; a new run replaces its row. */

/** One of the two ways in which an example runs here. */
export interface Compared {
  /** Behaviours that are the same; undefined where it does not load. */
  readonly same: number | undefined;
  readonly differs: string;
}

export interface DrivenRow {
  readonly name: string;
  /** Undefined where the reference's own runtime does not start it. */
  readonly behaviours: number | undefined;
  readonly here: Compared;
  readonly installed: Compared;
}

const NONE = "–";

/** With the sums in a sentence above it. */
export function drivenTable(rows: ReadonlyArray<DrivenRow>): string {
  const behavioursOf = (some: ReadonlyArray<DrivenRow>): number =>
    some.reduce((total, { behaviours = 0 }) => total + behaviours, 0);
  const resultOf = (of: (row: DrivenRow) => Compared): string => {
    const loaded = rows.filter((row) => of(row).same !== undefined);
    const same = loaded.reduce((total, row) => total + (of(row).same ?? 0), 0);
    return `${loaded.length} load, and of their ${behavioursOf(loaded)} behaviours ${same} are the same.`;
  };
  const started = rows.filter(({ behaviours }) => behaviours !== undefined);
  return [
    `${behavioursOf(started)} behaviours of ${started.length} examples. ` +
      `Here ${resultOf(({ here }) => here)} ` +
      `With the reference's own package ${resultOf(({ installed }) => installed)}`,
    "",
    "| example | behaviours | the same here | what differs | the same with the reference's package | what differs |",
    "| --- | --- | --- | --- | --- | --- |",
    ...rows.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(lineOf),
  ].join("\n");
}

const lineOf = ({ name, behaviours, here, installed }: DrivenRow): string =>
  `| ${[name, behaviours ?? "does not start", here.same ?? NONE, here.differs, installed.same ?? NONE, installed.differs].join(" | ")} |`;

/** The rows of a table that `drivenTable` made. */
export function rowsOf(text: string): ReadonlyArray<DrivenRow> {
  const lines = text.split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) => {
    const [name, behaviours, same, differs, sameInstalled, differsInstalled] = line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
    return {
      name: name!,
      behaviours: numberOf(behaviours!),
      here: { same: numberOf(same!), differs: differs! },
      installed: { same: numberOf(sameInstalled!), differs: differsInstalled! },
    };
  });
}

const numberOf = (cell: string): number | undefined =>
  /^\d+$/.test(cell) ? Number(cell) : undefined;
