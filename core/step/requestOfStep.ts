/**
 * A request that the function of a step makes: it carries the step's idempotency key, unless the
 * code has given it one.
 */
import type { StepScope } from "../turn/Turn.ts";

export const IDEMPOTENCY_KEY = "idempotency-key";

export function requestOfStep(step: StepScope | undefined, request: Request): Request {
  if (step !== undefined && !request.headers.has(IDEMPOTENCY_KEY))
    request.headers.set(IDEMPOTENCY_KEY, step.key);
  return request;
}
