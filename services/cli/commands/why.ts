/**
 * `agents why <class> <name> <path>`: prints the turns that wrote a field of an agent's state, or a
 * row of one of its tables, from its journal alone (`core/history/fieldHistory`).
 *
 * A path has the form that `agents diff`, `agents rerun` and the console print. `state.…` is in the
 * state, and `table:events[42]` is a row of that table. Any other path is a row if it starts like a
 * row of one of the agent's tables, and else in the state; a path that could be both is refused.
 */
import type { Command } from "commander";
import { differenceLine } from "../../../core/history/agentDifferences.ts";
import { fieldHistory, type Field, type FieldWrite } from "../../../core/history/fieldHistory.ts";
import { bracketValues, fieldName, readPath } from "../../../core/history/FieldPath.ts";
import { isKeyOf, keyColumns, tablesOf } from "../../../core/history/tableRows.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { findAgent } from "../agents/findAgent.ts";
import { withAgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { parsed } from "../options/argumentParsers.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { usage } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface WhyOptions {
  readonly className: string;
  readonly name: string;
  readonly path: string;
  /** Only this many writes, the last ones. Undefined: all. */
  readonly limit?: number | undefined;
  readonly json?: boolean | undefined;
}

type Given = GivenTarget & Partial<WhyOptions>;

export function addWhy(program: Command, context: CommandContext): void {
  const { terminal } = context;
  addTargetOptions(program.command("why"), "<class>", "<name>")
    .description(
      "Shows the turns that wrote a field of an agent's state or a row of its tables, newest first, each with its cause, its delivery, and the value before and after. Reads the journal and does not touch the running agent.",
    )
    .argument(
      "<path>",
      "state.pr.title, pr.title, items[3]; or a row by its primary key or rowid: events[42], events[42].title",
      parsed(checkPath),
    )
    .addOption(option.count("--limit <count>", "only the last <count> writes"))
    .addHelpText(
      "after",
      `
If a path could be a field or a row: state.events[42] is the field, table:events[42] the row.
Quote a text key that looks like a number; separate the columns of a key with commas:
  members["ann"], members["ann",7].role

--json prints one object a line, newest first:
  {seq, time, before?, after?,
   causes: [{kind, id?, delivery?, provider?, route?, type?, attempt?, traceparent?, …}]}
before is absent if the value was added, after if it was removed.

Examples:
  agents why RepoAgent octocat~hello-world state.open
  agents why repo-agent octocat~hello-world "events[42].title" --json`,
    )
    .action((className: string, name: string, path: string, given: Given) =>
      withPorts(context, given, (ports) =>
        why(ports, terminal, { ...given, className, name, path }),
      ),
    );
}

/** Throws `CliError` if the agent does not exist, or the path is invalid or ambiguous. */
export async function why(
  ports: ReadPorts,
  terminal: Terminal,
  { className, name, path, limit, json }: WhyOptions,
): Promise<void> {
  const id = await findAgent(ports.journal, className, name);
  const field = await fieldOf(ports, { className, name, path });
  const found: FieldWrite[] = [];
  for await (const write of fieldHistory(id, field, ports)) {
    found.push(write);
    if (limit !== undefined && found.length > limit) found.shift();
  }
  if (found.length === 0 && !json) terminal.err(`No turn wrote ${path}: it has never existed.`);
  for (const write of found.toReversed())
    terminal.out(json ? JSON.stringify(write) : describe(write));
}

/** The fields and rows that a path can be. */
interface Meant {
  readonly field?: Field;
  readonly row?: Extract<Field, { kind: "row" }>;
}

/** Throws `CliError`. */
function meantBy(path: string): Meant {
  const isRow = path.startsWith("table:");
  const parts = readPath(isRow ? path.slice("table:".length) : path);
  if (parts === undefined)
    throw usage('Use a path, as in state.pr.title, items[3], events[42].title or state["odd.name"].'); // prettier-ignore
  const [first, second, ...below] = parts;
  const root = fieldName(first!);
  if (root === "state" && !isRow)
    return { field: { kind: "state", names: parts.slice(1).map(fieldName) } };
  const key = second !== undefined && "inBrackets" in second ? second.inBrackets : undefined;
  if (isRow && key === undefined)
    throw usage("A row is identified by its key in brackets, as in table:events[42].");
  return {
    ...(!isRow && { field: { kind: "state", names: parts.map(fieldName) } }),
    ...(key !== undefined && {
      row: { kind: "row", table: root, key: bracketValues(key), names: below.map(fieldName) },
    }),
  };
}

function checkPath(path: string): string {
  meantBy(path);
  return path;
}

/** Throws `CliError`. */
async function fieldOf(
  ports: ReadPorts,
  { className, name, path }: Pick<WhyOptions, "className" | "name" | "path">,
): Promise<Field> {
  const { field, row } = meantBy(path);
  if (field === undefined || row === undefined) return (field ?? row)!;
  const root = row.table;
  return withAgentAt(ports, { className, name, at: undefined }, (_id, { state, database }) => {
    const isField = typeof state === "object" && state !== null && Object.hasOwn(state, root);
    if (!tablesOf(database).has(root)) return field;
    if (isField)
      throw usage(
        `"${path}" could be a field of the state or a row. Use state.${path} or table:${path}.`,
      );
    const columns = keyColumns(database, root);
    if (!isKeyOf(columns, row.key))
      throw usage(
        `Rows of ${root} are identified by ${columns.join(" and ")}. Put ${columns.length === 1 ? "one value" : `${columns.length} values, separated by commas,`} in the brackets.`,
      );
    return row;
  });
}

function describe({ seq, time, causes, ...change }: FieldWrite): string {
  const by = causes.map(({ kind, provider, type, attempt, id, delivery }) =>
    [
      [kind, provider, type].filter((part) => part !== undefined).join(" "),
      ...(attempt === undefined ? [] : [`attempt ${attempt}`]),
      ...(delivery === undefined ? (id === undefined ? [] : [id]) : [`delivery ${delivery}`]),
    ].join("  "),
  );
  const value = differenceLine({ path: "", ...change }).slice(": ".length);
  return `${seq}  ${time}  ${oneLine(by.join(", "))}\n    ${oneLine(value)}`;
}
