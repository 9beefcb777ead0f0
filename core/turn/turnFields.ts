/**
 * The fields of a log line that say what a turn is for: the input's kind, key and attempt, its
 * delivery and its trace.
 */
import type { Turn } from "./Turn.ts";
import type { LogFields } from "../telemetry/Log.ts";
import { traceIdOf } from "../telemetry/Tracing.ts";

export function turnFields({ cause }: Pick<Turn, "cause">): LogFields {
  const { kind, id: key, attempt, delivery, traceparent } = cause;
  return {
    turn: kind,
    ...(key !== undefined && { key }),
    ...(attempt !== undefined && { attempt }),
    ...(delivery !== undefined && { delivery }),
    ...(traceparent !== undefined && { trace: traceIdOf(traceparent) }),
  };
}
