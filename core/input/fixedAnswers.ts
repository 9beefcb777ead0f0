/** The answers to an input that its agent did not make: a repetition, a refusal, a failure. */
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
