/**
 * `agents query "<sql>"`: one SELECT over all agents. A host answers, from a view that it keeps
 * (`core/query/askHosts`). If none runs, and with `--local`, the command reads a view in the data
 * folder (`core/query/View`). Either is updated first, so that the answer includes everything that
 * was stored before the command began. For an earlier time, the command builds a separate view. No
 * agent is activated.
 */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import type { SqlResult } from "../../../core/database/Databases.ts";
import {
  QUESTION_ROWS_MAX,
  QUESTION_SECONDS_DEFAULT,
  QUESTION_SECONDS_MAX,
} from "../../../core/query/askHosts.ts";
import { askView, UnknownClass } from "../../../core/query/askView.ts";
import type { View } from "../../../core/query/View.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { AgentsAnswer } from "../../../schemas/AgentsQuestion.ts";
import type { Joins } from "../../wiring/Joins.ts";
import type { ReaderOptions, ReadPorts } from "../../wiring/ReadPorts.ts";
import { askInstallation, explained } from "../agents/askInstallation.ts";
import { awaitEvent } from "../agents/awaitEvent.ts";
import { withViewAt } from "../agents/withViewAt.ts";
import { withView } from "../agents/withView.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { statementSeconds } from "../options/options.ts";
import { parsed, readEvent, type ChosenEvent } from "../options/argumentParsers.ts";
import { timeOption } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { notFound, usage } from "../terminal/CliError.ts";
import { printRows } from "../terminal/printRows.ts";
import { Progress } from "../terminal/Progress.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** The query without SQL: a summary by class. */
const CLASSES_SQL =
  "SELECT class, count(*) AS agents, max(time) AS time, count(error) AS failing, count(fault) AS damaged FROM agents GROUP BY class";
/** For an answer that only this process has in memory, in a few copies. */
const LOCAL_BYTES_MAX = 256 * 2 ** 20;

/** Connects, calls `use`, and closes the connection. */
type OpenPorts = <A>(options: ReaderOptions, use: (ports: ReadPorts) => Promise<A>) => Promise<A>;

interface QueryOptions {
  /** Empty: a summary by class. */
  readonly sql: string;
  readonly json: boolean;
  /** Absolute. */
  readonly dataFolder: string;
  readonly rebuild: boolean;
  /** Asks no host. */
  readonly local: boolean;
  /** The longest time that the statement may run. */
  readonly seconds: number;
  /** Milliseconds since the epoch; undefined: now. */
  readonly at: number | undefined;
  /** An event that the answer must include. */
  readonly after: ChosenEvent | undefined;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly rebuild?: boolean;
  readonly local?: boolean;
  readonly seconds: number;
  readonly at?: number;
  readonly after?: ChosenEvent;
}

export function addQuery(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("query"))
    .description(
      "Runs one SELECT over all agents, without waking any. A host answers, from a view of the journals that it keeps and updates for each query. Without a host the command reads a view in the data folder. The first query of a view takes as long as reading all journals.",
    )
    .argument("[sql]", "one SQLite statement that reads (default: a summary by class)")
    .option("--local", "ask no host; read the view in the data folder")
    .option("--rebuild", "as --local, and rebuild the view first")
    .addOption(
      timeOption(
        "--at <time>",
        "as of an earlier time (2h for two hours ago, or 2026-03-01T09:30:00Z); reads all journals, and the --archive if they are trimmed",
        joins.time,
      ),
    )
    .addOption(
      new Option(
        "--after <class/name@seq>",
        "include this event of an agent: waits for it, at most 30 seconds",
      ).argParser(parsed(readEvent)),
    )
    .addOption(statementSeconds(QUESTION_SECONDS_DEFAULT))
    .addHelpText(
      "after",
      `
Each class is a table with the class's name; the table "agents" has the agents of all classes, with
a column class. A row is an agent:
  name, seq and time (of its last event), errors (number of failed turns), error (of the last turn),
  fault (a damaged event), due (next schedule), pages (of its database, of 4,096 bytes each),
  size (bytes of database and state), schedules and state (JSON: state->>'plan',
  json_each(schedules))

--json prints an array of rows, objects by column; blobs are base64.

Examples:
  agents query "SELECT name, state->>'plan' FROM RepoAgent WHERE state->>'stars' > 100"
  agents query "SELECT class, name, error FROM agents WHERE error IS NOT NULL ORDER BY time DESC"
  agents query "SELECT state->>'plan' AS plan, count(*) FROM Customer GROUP BY plan" --at 7d
  agents query --json \\
    "SELECT name, due FROM RepoAgent WHERE datetime(due) < datetime('now', '+1 hour')"`,
    )
    .action((sql: string | undefined, given: Given) =>
      query((options, use) => withPorts(context, given, use, options), joins, terminal, {
        sql: sql ?? "",
        json: given.json === true,
        dataFolder: resolve(terminal.cwd, given.data),
        rebuild: given.rebuild === true,
        local: given.local === true,
        seconds: given.seconds,
        at: given.at,
        after: given.after,
      }),
    );
}

/** Throws `CliError` for SQL that is wrong, writes or is slow, and for conflicting options. */
export async function query(
  open: OpenPorts,
  joins: Pick<Joins, "openDatabases" | "time">,
  terminal: Terminal,
  { sql, json, dataFolder, rebuild, local, seconds, at: atTimeMs, after }: QueryOptions,
): Promise<void> {
  const { time } = joins;
  if (atTimeMs !== undefined && (rebuild || local || after !== undefined))
    throw usage(
      "--at builds a separate view, as of that time: leave out --local, --rebuild and --after",
    );
  if (atTimeMs === undefined && !rebuild && !local) {
    if (seconds > QUESTION_SECONDS_MAX)
      throw usage(
        `--seconds ${seconds}: a host runs a statement for at most ${QUESTION_SECONDS_MAX} seconds. With --local the command runs it, over its own view.`,
      );
    const answer = await open({ sql: false }, (ports) =>
      askHost(ports, time, { sql, seconds, after }),
    );
    if (answer !== undefined) return printRows(terminal, answer, json, upTo(answer.seqs));
  }
  const progress = new Progress(terminal, time, "events read");
  const ask = (view: View): SqlResult => answerOf(view, { sql, seconds, atTimeMs });
  await open({}, async (ports) => {
    if (atTimeMs !== undefined) {
      const result = await withViewAt(ports, { atTimeMs, progress }, ask);
      return printRows(terminal, result, json, `, as of ${new Date(atTimeMs).toISOString()}`);
    }
    if (after !== undefined) await awaitEvent(ports, time, after);
    const { result, seqs } = await withView(
      joins,
      ports,
      { dataFolder, rebuild, progress },
      (view) => ({ result: ask(view), seqs: view.seqs }),
    );
    printRows(terminal, result, json, upTo(seqs));
  });
}

/**
 * The answer of a host, whose view is kept for the next question, or undefined if none runs. Throws
 * `CliError` as `query` does.
 */
export async function askHost(
  ports: Pick<ReadPorts, "calls" | "leases" | "shards" | "journal" | "changes">,
  time: TimeShape,
  asked: {
    readonly sql: string;
    readonly seconds?: number;
    readonly after: ChosenEvent | undefined;
  },
): Promise<AgentsAnswer | undefined> {
  const { sql, seconds = QUESTION_SECONDS_DEFAULT, after } = asked;
  if (after !== undefined) await awaitEvent(ports, time, after);
  return askInstallation(ports, {
    sql: sql === "" ? CLASSES_SQL : sql,
    values: [],
    seconds,
    rowsMax: QUESTION_ROWS_MAX,
  });
}

const upTo = (seqs: ReadonlyArray<number> = []): string =>
  seqs.length === 0 ? "" : `, up to event ${seqs.join(", ")}`;

function answerOf(
  view: View,
  asked: { readonly sql: string; readonly seconds: number; readonly atTimeMs: number | undefined },
): SqlResult {
  const { sql, seconds, atTimeMs } = asked;
  try {
    return askView(view, {
      sql: sql === "" ? CLASSES_SQL : sql,
      values: [],
      seconds,
      rowsMax: QUESTION_ROWS_MAX,
      bytesMax: LOCAL_BYTES_MAX,
    });
  } catch (error) {
    if (error instanceof UnknownClass && atTimeMs !== undefined)
      throw notFound(
        `${error.message} The answer is as of ${new Date(atTimeMs).toISOString()}: a class whose first agent is younger had none.`,
      );
    throw explained(error);
  }
}
