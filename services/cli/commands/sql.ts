/**
 * `agents sql <class> <name> "<query>" [--at …]`: queries an agent's database, now or at any point
 * of its history. The query runs on a copy rebuilt from the journal, and may only read, because the
 * effect of a statement that writes would be lost silently.
 */
import type { Command } from "commander";
import {
  QueryTooLong,
  TooManyBytes,
  TooManyRows,
  type SqlResult,
} from "../../../core/database/Databases.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { withAgentAt, type AgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { at } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { CliError, EXIT_FAILED, failed } from "../terminal/CliError.ts";
import { printRows } from "../terminal/printRows.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { messageOf } from "../../../core/errors/thrown.ts";

interface SqlOptions extends AgentAt {
  readonly query: string;
  readonly json?: boolean | undefined;
  /** The longest time that the statement may run. */
  readonly seconds: number;
}

/** A sensible statement takes less than a second. */
const SECONDS_DEFAULT = 10;
/** All rows are in memory at once. */
const ROWS_MAX = 100_000;
const BYTES_MAX = 64 * 2 ** 20;

/** The statement was ended at its time limit. */
export class StatementTooLong extends CliError {}

type Given = GivenTarget & Pick<SqlOptions, "at" | "seconds">;

export function addSql(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("sql"), "<class>", "<name>")
    .description("Runs a query on a copy of an agent's database, rebuilt from its journal.")
    .argument("<query>", "one SQLite statement that reads")
    .addOption(at(joins.time))
    .addOption(option.statementSeconds(SECONDS_DEFAULT))
    .addHelpText(
      "after",
      `
--json prints an array of rows, objects by column; blobs are base64.

Examples:
  agents sql repo-agent octocat~hello-world "SELECT type, count(*) FROM events GROUP BY type"
  agents sql repo-agent octocat~hello-world "SELECT * FROM events" --at 42 --json`,
    )
    .action((className: string, name: string, query: string, given: Given) =>
      withPorts(context, given, (ports) =>
        sql(ports, terminal, { ...given, className, name, query }),
      ),
    );
}

/** `--json` prints an array of rows by column. Blobs: base64; integers past 2^53: strings. */
export const sql = (ports: ReadPorts, terminal: Terminal, options: SqlOptions): Promise<void> =>
  withAgentAt(ports, options, (_id, { database }) => {
    let result: SqlResult;
    try {
      const limits = { rowsMax: ROWS_MAX, bytesMax: BYTES_MAX, timeMsMax: options.seconds * 1_000 };
      result = database.read(options.query, limits);
    } catch (error) {
      throw explained(error, options);
    }
    printRows(terminal, result, options.json === true);
  });

function explained(error: unknown, { seconds }: SqlOptions): CliError {
  if (error instanceof QueryTooLong)
    return new StatementTooLong({
      message: `The statement ran for ${seconds} seconds and was stopped. Make it cheaper, or allow more time (--seconds).`,
      exitCode: EXIT_FAILED,
    });
  if (error instanceof TooManyRows)
    return failed(`The statement has more than ${ROWS_MAX} rows: add a LIMIT, or aggregate.`);
  if (error instanceof TooManyBytes)
    return failed(`The rows are larger than ${BYTES_MAX / 2 ** 20} MiB: select fewer rows or columns.`); // prettier-ignore
  return failed(`SQLite: ${messageOf(error)}`);
}
