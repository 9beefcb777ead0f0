/**
 * A request that the function of a step makes carries the step's idempotency key, unless the code
 * has set one, or the method is safe.
 */
import type { StepScope } from "../turn/Turn.ts";

/** The safe methods of RFC 9110: their requests may be repeated. */
const SAFE: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);
const IDEMPOTENCY_KEY = "idempotency-key";

export function requestOfStep(step: StepScope | undefined, request: Request): Request {
  if (step !== undefined && !SAFE.has(request.method) && !request.headers.has(IDEMPOTENCY_KEY))
    request.headers.set(IDEMPOTENCY_KEY, step.key);
  return request;
}
