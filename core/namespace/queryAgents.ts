/**
 * `query(env.RepoAgent, sql)` runs one SELECT over all agents, for a module's `fetch` or an agent.
 * A host answers from a view of the journals (`core/query/askHosts`); no agent is activated.
 */
import { assertWireValue } from "../call/wireValue.ts";
import { checkOptions } from "../errors/checkOptions.ts";
import { askHosts, QUESTION_SECONDS_DEFAULT, QUESTION_SECONDS_MAX } from "../query/askHosts.ts";
import { rowObjects } from "../query/askView.ts";
import { AgentNamespace } from "./AgentNamespace.ts";

export { QueryRefused } from "../query/askView.ts";

/** Options of `query`. */
export interface QueryOptions {
  /** Values for the statement's `?`, in order. */
  readonly values?: ReadonlyArray<string | number | boolean | null>;
  /** Seconds that the statement may run, at most 60. Default 10. */
  readonly seconds?: number;
}

const OPTIONS = new Set(["values", "seconds"]);

/**
 * Runs one SELECT of SQLite over all agents of the installation and resolves to its rows, as
 * objects keyed by column (blobs are base64). Each class is a table of that name, and `agents` has
 * all of them; the guide (Queries) lists the columns. No agent is activated.
 *
 * You can read your writes: the answer includes everything that was stored before the call, which
 * is each turn whose response, result or webhook answer (other than 202) was received by then.
 * Called in an agent, it first stores what the turn has written.
 *
 * Rejects with `QueryRefused` for SQL that is invalid or writes, a class without agents, more than
 * 10,000 rows, and a statement that takes longer than `seconds`; with `TypeError` for a value that
 * is not a binding or can't be bound; and with `AgentUnreachable` when no host answers.
 */
export async function query<Row = Record<string, string | number | null>>(
  namespace: AgentNamespace,
  sql: string,
  options: QueryOptions = {},
): Promise<Row[]> {
  if (!(namespace instanceof AgentNamespace))
    throw new TypeError(
      "query: the first argument is not an agent binding. Export the class from the module and use env.<ClassName>",
    );
  if (typeof sql !== "string")
    throw new TypeError("query: the second argument must be SQL, as a string");
  checkOptions("query", options, OPTIONS);
  const { values = [], seconds = QUESTION_SECONDS_DEFAULT } = options;
  if (!Array.isArray(values)) throw new TypeError("query: values must be an array");
  if (!(seconds > 0 && seconds <= QUESTION_SECONDS_MAX))
    throw new RangeError(`query: seconds is ${seconds}; it must be more than 0 and at most ${QUESTION_SECONDS_MAX}`); // prettier-ignore
  values.forEach((value, n) => {
    assertWireValue(value, `value ${n + 1} of the query`);
    if (typeof value === "object" && value !== null)
      throw new TypeError(`value ${n + 1} of the query is an object: pass its JSON text`);
  });
  const { className } = namespace;
  const answer = await askHosts(
    AgentNamespace.callsOf(namespace)(),
    { className, sql, values, seconds },
    "The view of all agents, which query() asks,",
  );
  return rowObjects(answer) as Row[];
}
