/**
 * `agents query "<sql>"`: one SELECT over all agents. Reads the view in the data folder
 * (`core/query/View`), which is brought up to date first: the answer has everything that was stored
 * before the command began. As of an earlier time it reads a view that is made for it. No agent is
 * woken.
 */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import type { SqlResult } from "../../../core/database/Databases.ts";
import { askView, QueryRefused, UnknownClass } from "../../../core/query/askView.ts";
import type { View } from "../../../core/query/View.ts";
import { agentId } from "../../../schemas/Address.ts";
import type { Joins, ReadPorts } from "../../wiring/Joins.ts";
import { existingClass } from "../agents/findAgent.ts";
import { withViewAt } from "../agents/withViewAt.ts";
import { withView, type ViewEvent } from "../agents/withView.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { readWhole } from "../options/options.ts";
import { readTime } from "../options/readTime.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed, notFound, usage } from "../terminal/CliError.ts";
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
  /** A time, as people type it; undefined: now. */
  readonly at: string | undefined;
  /** An event that the answer must have, `<class>/<name>@<seq>`. */
  readonly after: string | undefined;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly rebuild?: boolean;
  readonly seconds: number;
  readonly at?: string;
  readonly after?: string;
}

export function addQuery(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("query"))
    .description(
      "Runs one SELECT over all agents, without waking any. Reads a view in the data folder, which is first updated from the journals. The first query takes as long as reading all journals.",
    )
    .argument("[sql]", "one SQLite statement that reads (default: a summary by class)")
    .option("--rebuild", "rebuild the view first")
    .option(
      "--at <time>",
      "as of an earlier time (2h for two hours ago, or 2026-03-01T09:30:00Z); reads all journals, and the --archive if they are trimmed",
    )
    .option(
      "--after <class/name@seq>",
      "include this event of an agent: waits for it, at most 30 seconds",
    )
    .addOption(
      new Option("--seconds <count>", "time limit of the statement")
        .default(SECONDS_DEFAULT)
        .argParser((text: string) => readWhole(text, 1, SECONDS_MAX)),
    )
    .addHelpText(
      "after",
      `
Each class is a table with the class's name; the table "agents" has the agents of all classes, with
a column class. A row is an agent:
  name, seq and time (of its last event), errors (number of failed turns), error (of the last turn),
  fault (a damaged event), due (next schedule), size (bytes of database and state),
  schedules and state (JSON: state->>'plan', json_each(schedules))

--json prints an array of rows, objects by column; blobs are base64.

Examples:
  agents query "SELECT name, state->>'plan' FROM RepoAgent WHERE state->>'stars' > 100"
  agents query "SELECT class, name, error FROM agents WHERE error IS NOT NULL ORDER BY time DESC"
  agents query "SELECT state->>'plan' AS plan, count(*) FROM Customer GROUP BY plan" --at 7d
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
          at: given.at,
          after: given.after,
        }),
      ),
    );
}

/** Throws `CliError` for SQL that is wrong, writes, or takes too long, and for a wrong `at`. */
export async function query(
  { ports, joins }: { readonly ports: ReadPorts; readonly joins: Pick<Joins, "openDatabases" | "time"> }, // prettier-ignore
  terminal: Terminal,
  { sql, json, dataFolder, rebuild, seconds, at, after }: QueryOptions,
): Promise<void> {
  if (at !== undefined && (rebuild || after !== undefined))
    throw usage("--at builds a separate view, as of that time: leave out --rebuild and --after");
  const progress = new Progress(terminal, joins.time, "events read");
  const ask = (view: View): SqlResult => answer(view, sql, seconds);
  if (at !== undefined) {
    const atTimeMs = readTime(at, "--at", joins.time.nowMs());
    const result = await withViewAt(ports, { atTimeMs, progress }, ask);
    return printRows(terminal, result, json, `, as of ${new Date(atTimeMs).toISOString()}`);
  }
  const { result, seqs } = await withView(
    joins,
    ports,
    { dataFolder, rebuild, progress, event: await eventOf(ports, after) },
    (view) => ({ result: ask(view), seqs: view.seqs }),
  );
  printRows(terminal, result, json, `, up to event ${seqs.join(", ")}`);
}

function answer(view: View, sql: string, seconds: number): SqlResult {
  try {
    return askView(view, { sql, values: [], seconds, rowsMax: ROWS_MAX });
  } catch (error) {
    if (error instanceof UnknownClass) throw notFound(error.message);
    if (error instanceof QueryRefused) throw failed(error.message);
    throw error;
  }
}

/** Names of agents may have slashes and signs of their own. */
async function eventOf(
  { journal, changes }: Pick<ReadPorts, "journal" | "changes">,
  after: string | undefined,
): Promise<ViewEvent | undefined> {
  if (after === undefined) return undefined;
  const [, className, name, seq] = /^([^/]+)\/(.+)@(\d+)$/s.exec(after) ?? [];
  if (className === undefined || name === undefined)
    throw usage(`--after ${after}: specify an event of an agent (--after RepoAgent/acme~site@42)`);
  const id = agentId(await existingClass(journal, className), name);
  return { text: after, group: changes.groupOf(id), seq: Number(seq) };
}
