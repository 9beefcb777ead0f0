/**
 * Lists, for people, how two versions of code differ in what they make of an agent: paths of the
 * state, rows of the tables that the code made, and what was scheduled, queued and sent. Only new
 * entries of the last three are compared, and ids that each run makes up are ignored. Fed by
 * `agents rerun`.
 */
import type { AgentDatabase } from "../database/Databases.ts";
import { MAIL_TABLE } from "../outgoing/MailLane.ts";
import { OUTGOING_TABLE } from "../outgoing/OutgoingLane.ts";
import { QUEUE_TABLE } from "../queue/QueueTable.ts";
import { SCHEDULE_TABLE } from "../schedule/ScheduleTable.ts";
import {
  differenceLine,
  readTables,
  stateDifferences,
  tableDifferences,
} from "./agentDifferences.ts";
import { shownCell } from "./tableRows.ts";

export interface ComparedAgent {
  /** Undefined: unset. */
  readonly state: unknown;
  readonly database: Pick<AgentDatabase, "query">;
}

/** Rows of one table past which only their number is compared. */
const ROWS_MAX = 10_000;
/** Lines for one comparison: a person reads them. */
const LINES_MAX = 20;
/** Characters of a row in a line. */
const ROW_MAX = 240;
/** The library's own tables are bookkeeping with ids and times, except for these columns. */
const OWN_COLUMNS = [
  [SCHEDULE_TABLE, "schedules", "callback, payload, type, delayInSeconds, cron, intervalSeconds"],
  [QUEUE_TABLE, "queue", "callback, payload"],
  [OUTGOING_TABLE, "webhooks sent", "callback, payload"],
  [MAIL_TABLE, "mail sent", "callback, payload"],
] as const; // prettier-ignore

/**
 * A line for each difference, at most twenty; empty if there is none. `was` is the first agent;
 * `before` is where both began.
 */
export function compareAgents(
  was: ComparedAgent,
  is: ComparedAgent,
  before: ComparedAgent["database"],
): ReadonlyArray<string> {
  const different = [
    ...stateDifferences(was.state, is.state),
    ...tableDifferences(readTables(was.database, ROWS_MAX), readTables(is.database, ROWS_MAX)),
  ];
  const lines = [
    ...different.map((one) => differenceLine(one)),
    ...OWN_COLUMNS.flatMap(([table, what, columns]) => {
      const there = ownRows(before, table, columns);
      const added = ({ database }: ComparedAgent): ReadonlyArray<string> =>
        without(ownRows(database, table, columns), there);
      const [a, b] = [added(was), added(is)];
      return [
        ...without(a, b).map((text) => `${what}: without ${cut(text)}`),
        ...without(b, a).map((text) => `${what}: with ${cut(text)}`),
      ];
    }),
  ];
  if (lines.length <= LINES_MAX) return lines;
  return [...lines.slice(0, LINES_MAX), `and ${lines.length - LINES_MAX} more`];
}

/** The texts that the others lack, each as often as it is missing. */
function without(texts: ReadonlyArray<string>, others: ReadonlyArray<string>): string[] {
  const left = new Map<string, number>();
  for (const text of others) left.set(text, (left.get(text) ?? 0) + 1);
  return texts.filter((text) => {
    const count = left.get(text) ?? 0;
    if (count > 0) left.set(text, count - 1);
    return count === 0;
  });
}

function ownRows(
  database: ComparedAgent["database"],
  table: string,
  columns: string,
): ReadonlyArray<string> {
  const there = database.query("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).rows;
  return there.length === 0 ? [] : textsOf(database, `SELECT ${columns} FROM ${table}`);
}

function textsOf(database: ComparedAgent["database"], sql: string): ReadonlyArray<string> {
  const { columns, rows } = database.query(sql, []);
  return rows.map((row) =>
    JSON.stringify(Object.fromEntries(columns.map((name, n) => [name, shownCell(row[n])]))),
  );
}

const cut = (text: string): string =>
  text.length <= ROW_MAX ? text : `${text.slice(0, ROW_MAX)}…`;
