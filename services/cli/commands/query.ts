/**
 * `agents query "<sql>"`: one SELECT over all agents. Reads the view in the data folder
 * (`core/query/View`), which is brought up to date first: the answer has everything that was stored
 * before the command began. No agent is woken.
 */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { QueryTooLong, TooManyRows, type SqlResult } from "../../../core/database/Databases.ts";
import { nearest } from "../../../core/errors/nearest.ts";
import type { View } from "../../../core/query/View.ts";
import type { Joins, ReadPorts } from "../../wiring/Joins.ts";
import { withView } from "../agents/withView.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { readWhole } from "../options/options.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed, notFound } from "../terminal/CliError.ts";
import { printRows } from "../terminal/printRows.ts";
import { Progress } from "../terminal/Progress.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** Without SQL: which classes there are. */
const CLASSES_SQL =
  "SELECT class, count(*) AS agents, max(time) AS time, count(error) AS failing, count(fault) AS damaged FROM agents GROUP BY class";
/** A statement that is meant takes less than a second of 100,000 agents. */
const SECONDS_DEFAULT = 10;
/** An hour: whoever waits for longer has no interactive question. */
const SECONDS_MAX = 3_600;
/** All rows of an answer are in memory at once. */
const ROWS_MAX = 100_000;

export interface QueryOptions {
  readonly sql: string;
  readonly json: boolean;
  /** Absolute. */
  readonly dataFolder: string;
  readonly rebuild: boolean;
  /** The longest that the statement may run. */
  readonly seconds: number;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly rebuild?: boolean;
  readonly seconds: number;
}

export function addQuery(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("query"))
    .description(
      "Runs one SELECT over all agents, and wakes none. It reads a view in the data folder, which is brought up to date from the journals first; the first time takes as long as reading all of them.",
    )
    .argument("[sql]", "one SQLite statement that reads (default: the classes, and their agents)")
    .option("--rebuild", "make the view anew first")
    .addOption(
      new Option("--seconds <count>", "seconds that the statement may run")
        .default(SECONDS_DEFAULT)
        .argParser((text: string) => readWhole(text, 1, SECONDS_MAX)),
    )
    .addHelpText(
      "after",
      `
Each class is a table of its name; "agents" has all of them, with their class. A row is an agent:
  name, seq and time of its last event, errors (turns that failed) and error (of the last turn),
  fault (a damaged event), due (next schedule), size (bytes of database and state),
  schedules and state (JSON: state->>'plan', json_each(schedules))

--json prints an array of rows, objects by column; blobs are base64.

Examples:
  agents query "SELECT name, state->>'plan' FROM RepoAgent WHERE state->>'stars' > 100"
  agents query "SELECT class, name, error FROM agents WHERE error IS NOT NULL ORDER BY time DESC"
  agents query "SELECT name, due FROM RepoAgent WHERE datetime(due) < datetime('now', '+1 hour')" --json`,
    )
    .action((sql: string | undefined, given: Given) =>
      withPorts(context, given, (ports) =>
        query({ ports, joins }, terminal, {
          sql: sql ?? CLASSES_SQL,
          json: given.json === true,
          dataFolder: resolve(terminal.cwd, given.data),
          rebuild: given.rebuild === true,
          seconds: given.seconds,
        }),
      ),
    );
}

/** Throws `CliError` for SQL that is wrong, writes, or takes too long. */
export async function query(
  { ports, joins }: { readonly ports: ReadPorts; readonly joins: Pick<Joins, "openDatabases" | "time"> }, // prettier-ignore
  terminal: Terminal,
  { sql, json, dataFolder, rebuild, seconds }: QueryOptions,
): Promise<void> {
  const progress = json ? undefined : new Progress(terminal, joins.time);
  const { result, seqs } = await withView(
    joins,
    ports,
    { dataFolder, rebuild, progress },
    (view) => ({ result: answer(view, sql, seconds), seqs: view.seqs }),
  );
  printRows(terminal, result, json, `, up to event ${seqs.join(", ")}`);
}

function answer(view: View, sql: string, seconds: number): SqlResult {
  try {
    return view.read(sql, { rowsMax: ROWS_MAX, timeMsMax: seconds * 1_000 });
  } catch (error) {
    if (error instanceof QueryTooLong)
      throw failed(
        `The query ran for ${seconds} seconds and was ended. Make it cheaper, or give it longer (--seconds).`,
      );
    if (error instanceof TooManyRows)
      throw failed(`The query has more than ${ROWS_MAX} rows: add a LIMIT, or aggregate.`);
    if (!(error instanceof Error) || !("resultCode" in error)) throw error;
    const table = missingTable(error.message);
    if (table === undefined) throw failed(`SQLite: ${error.message}`);
    const meant = nearest(table, ["agents", ...view.classes]);
    throw notFound(
      `There are no agents of class ${table}. ${meant === undefined ? '"agents query" shows the classes.' : `Did you mean ${meant}?`}`,
    );
  }
}

/**
 * SQLite has one code for whatever is wrong with a statement; only its message says which table is
 * not there. Undefined: something else is wrong.
 */
const missingTable = (message: string): string | undefined =>
  /^no such table: (?:main\.)?(.+)$/.exec(message)?.[1];
