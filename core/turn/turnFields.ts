/**
 * The fields of a log line that say what a turn is for: the input's kind, key and attempt, its
 * delivery and its trace.
 */
import type { Turn } from "./Turn.ts";
import type { LogFields } from "../telemetry/Log.ts";
import { traceIdOf } from "../telemetry/Tracing.ts";

/**
 * Characters of a key that a line shows. A client chooses the id of its connection (`_pk`), and
 * what is longer than this is refused as the tag of a connection.
 */
const KEY_MAX = 256;

export function turnFields({ cause }: Pick<Turn, "cause">): LogFields {
  const { kind, id: key, attempt, delivery, traceparent } = cause;
  return {
    turn: kind,
    ...(key !== undefined && { key: key.length > KEY_MAX ? `${key.slice(0, KEY_MAX)}…` : key }),
    ...(attempt !== undefined && { attempt }),
    ...(delivery !== undefined && { delivery }),
    ...(traceparent !== undefined && { trace: traceIdOf(traceparent) }),
  };
}
