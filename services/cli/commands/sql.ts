/**
 * `agents sql <class> <name> "<query>" [--at …]`: queries an agent's database, now or at any point
 * of its history. The query runs on a copy rebuilt from the journal. A statement that writes is
 * refused, because its effect would be lost silently.
 */
import type { Command } from "commander";
import type { SqlResult } from "../../../core/database/Databases.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import { withAgentAt, type AgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed } from "../terminal/CliError.ts";
import { printRows } from "../terminal/printRows.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { messageOf } from "../../../core/errors/thrown.ts";

export interface SqlOptions extends AgentAt {
  readonly query: string;
  readonly json?: boolean | undefined;
}

type Given = GivenTarget & Partial<SqlOptions>;

export function addSql(program: Command, context: CommandContext): void {
  const { terminal } = context;
  addTargetOptions(program.command("sql"), "<class>", "<name>")
    .description("Runs a query on a copy of an agent's database, rebuilt from its journal.")
    .argument("<query>", "one SQLite statement that reads")
    .addOption(option.at())
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

/**
 * `--json` prints an array of rows, objects by column. Blobs are base64, integers past 2^53
 * strings.
 */
export const sql = (ports: ReadPorts, terminal: Terminal, options: SqlOptions): Promise<void> =>
  withAgentAt(ports, options, (_id, { database }) => {
    let result: SqlResult;
    try {
      result = database.query(options.query, []);
    } catch (error) {
      throw failed(`SQLite: ${messageOf(error)}`);
    }
    if (result.wrote)
      throw failed(
        "The statement writes, but it ran on a temporary copy: nothing was changed. Only the agent's own code can write to its database.",
      );
    printRows(terminal, result, options.json === true);
  });
