/** The answers to an input that its agent did not make: a repetition, a refusal, a failure. */
import { JournalRateExceeded } from "../errors/errors.ts";
import { nameOf } from "../errors/thrown.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import { ENTITY_CONFLICT } from "../webhook/sluggedEntity.ts";

const PLAIN = [["content-type", "text/plain;charset=UTF-8"]] as const;

/** The input is done: it was run before. */
export const REPEATED: ResponseParts = { status: 200, headers: PLAIN, body: "OK" };
/** The input is for an entity other than the agent's own. */
export const REFUSED: ResponseParts = { headers: PLAIN, ...ENTITY_CONFLICT };
/** The caller's view of an error: no stack, no message (`protocol.md`: never leaked). */
export const INTERNAL_ERROR: ResponseParts = {
  status: 500,
  headers: PLAIN,
  body: "Internal Server Error",
};

/**
 * The answer to a caller that has to retry later, because the agent, or one that it called, may not
 * write now. Undefined for other errors.
 */
export function tooMuchWritten(thrown: unknown): ResponseParts | undefined {
  // Known by its name: that of another agent is an `Error` here.
  const isSql = thrown instanceof Error && nameOf(thrown) === "SqlError";
  const error = isSql ? thrown.cause : thrown;
  if (!(error instanceof JournalRateExceeded)) return undefined;
  const retryAfter = String(Math.ceil(error.retryAfterMs / 1000));
  const headers = [...PLAIN, ["retry-after", retryAfter] as const];
  return { status: 429, headers, body: "Too Many Requests" };
}
