/**
 * The fibers of an agent as its tables show them: those that run, those that `startFiber` began
 * until they are deleted, what each stashed last, and the steps of those that are not over. Feeds
 * `agents fibers` and the console, on a copy of the database: no agent is woken.
 */
import type { AgentDatabase, SqlValue } from "../database/Databases.ts";
import { tableExists } from "../database/tableExists.ts";
import { UNDOING } from "../journal/AgentImage.ts";
import { nameOfStep } from "../step/stepKey.ts";
import { undoKey } from "../step/undoSteps.ts";
import type { FiberStatus } from "./Fiber.ts";
import { FIBER_STEPS_TABLE } from "./FiberSteps.ts";
import { FIBERS_TABLE } from "./FiberTable.ts";

export interface ListedFiber {
  readonly id: string;
  readonly name: string;
  readonly status: FiberStatus;
  /** It runs, or its recovery is not over. */
  readonly owed: boolean;
  /** ISO 8601, like all of these. */
  readonly created: string;
  readonly started?: string;
  readonly settled?: string;
  readonly idempotencyKey?: string;
  /** The beginnings of JSON. */
  readonly metadata?: string;
  readonly stashed?: string;
  /** Characters of what it stashed, where that is longer. */
  readonly stashedChars?: number;
  readonly error?: string;
  /** Recoveries that began and did not end, and those that failed. */
  readonly recoveries: number;
  readonly failures: number;
  /** How many of its steps are done; 0 once it is over. */
  readonly stepsDone: number;
  /** The first of these, in the order in which they ended. */
  readonly steps: ReadonlyArray<{ readonly name: string; readonly isUndone: boolean }>;
  /** Why its steps are being undone. */
  readonly undoing?: string;
}

/** The newest first. */
export interface FiberPage {
  readonly fibers: ReadonlyArray<ListedFiber>;
  /** How many there are on all pages. */
  readonly total: number;
}

/** Characters of JSON that are shown; the table has all. */
const SHOWN_CHARS = 200;
/** Steps of one fiber that are named. */
const STEPS_MAX = 50;

type Query = Pick<AgentDatabase, "query">;

export function listFibers(
  database: Query,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): FiberPage {
  if (!tableExists(database, FIBERS_TABLE)) return { fibers: [], total: 0 };
  const steps = tableExists(database, FIBER_STEPS_TABLE);
  const shown = (column: string): string => `substr(${column}, 1, ${SHOWN_CHARS})`;
  const { rows } = database.query(
    `SELECT fiber_id, name, status, owed, created_at, started_at, completed_at, idempotency_key,
      ${shown("metadata_json")}, ${shown("snapshot")}, length(snapshot), error_message, recoveries, failures
      FROM ${FIBERS_TABLE} ORDER BY created_at DESC, fiber_id DESC LIMIT ? OFFSET ?`,
    [limit, skip],
  );
  const total = Number(database.query(`SELECT count(*) FROM ${FIBERS_TABLE}`, []).rows[0]![0]);
  return {
    fibers: rows.map((row) => ({
      ...fiberOf(row),
      ...(steps ? stepsOf(database, String(row[0])) : { stepsDone: 0, steps: [] }),
    })),
    total,
  };
}

function fiberOf(row: ReadonlyArray<SqlValue>): Omit<ListedFiber, "stepsDone" | "steps"> {
  const text = <K extends string>(name: K, value: SqlValue | undefined) =>
    (value == null ? {} : { [name]: String(value) }) as { readonly [name in K]?: string };
  const time = <K extends string>(name: K, ms: SqlValue | undefined) =>
    text(name, ms == null ? null : new Date(Number(ms)).toISOString());
  const chars = Number(row[10] ?? 0);
  return {
    id: String(row[0]),
    name: String(row[1]),
    status: String(row[2]) as FiberStatus,
    owed: row[3] === 1,
    created: new Date(Number(row[4])).toISOString(),
    ...time("started", row[5]),
    ...time("settled", row[6]),
    ...text("idempotencyKey", row[7]),
    ...text("metadata", row[8]),
    ...text("stashed", row[9]),
    ...(chars > SHOWN_CHARS && { stashedChars: chars }),
    ...text("error", row[11]),
    recoveries: Number(row[12]),
    failures: Number(row[13]),
  };
}

/** Their keys are JSON without its quotes (`FiberSteps`). */
function stepsOf(
  database: Query,
  fiber: string,
): Pick<ListedFiber, "stepsDone" | "steps" | "undoing"> {
  const of = `FROM ${FIBER_STEPS_TABLE} AS done WHERE fiber_id = ? AND`;
  const undone = `EXISTS (SELECT 1 FROM ${FIBER_STEPS_TABLE} AS undo WHERE undo.fiber_id = done.fiber_id AND undo.key = '${undoKey("")}' || done.key)`;
  const { rows } = database.query(
    `SELECT key, ${undone} ${of} key GLOB '[0-9]*' ORDER BY rowid LIMIT ${STEPS_MAX}`,
    [fiber],
  );
  const count = `SELECT count(*) ${of} key GLOB '[0-9]*'`;
  const failure = database.query(`SELECT result ${of} key = '${UNDOING}'`, [fiber]).rows[0]?.[0];
  return {
    stepsDone: Number(database.query(count, [fiber]).rows[0]![0]),
    steps: rows.map(([key, isUndone]) => ({
      name: nameOfStep(JSON.parse(`"${String(key)}"`) as string),
      isUndone: isUndone === 1,
    })),
    ...(failure == null ? {} : { undoing: JSON.parse(String(failure)) as string }),
  };
}
