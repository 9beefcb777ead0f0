/**
 * Runs the function of a step until it returns: its attempts with their timeout, signal and pauses,
 * and what it returned as JSON text. `AgentSteps` stores the result.
 */
import { assertWireValue } from "../call/wireValue.ts";
import { AgentDestroyed, AgentDiscarded, messageOf } from "../errors/errors.ts";
import { firstOf, type Abortable } from "../http/AbortSource.ts";
import { backoffMs } from "../retry/retryPolicy.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { seenFrom, type StepScope, type Turn } from "../turn/Turn.ts";
import { isNonRetryable } from "../workflow/stepFacts.ts";
import type { Step } from "./Step.ts";
import { StepNotDurable, StepTimedOut, StepTooLarge, StepWrites } from "./stepErrors.ts";
import type { ResolvedStepOptions } from "./stepOptions.ts";

/** UTF-16 units of JSON. As much as of a state: it is kept in memory until the turn ends. */
const RESULT_CHARS_MAX = 16 * 1024 * 1024;

export interface AttemptsAgent extends Pick<
  AgentTurns,
  "log" | "sleep" | "time" | "unlessDiscarded"
> {
  /** Fires when the agent leaves memory. */
  readonly leaving: Abortable;
  /** Runs `f` as part of a turn. */
  inTurn<A>(turn: Turn, f: () => A): A;
}

/** JSON text; undefined for `undefined`. */
export type StepText = string | undefined;

export interface Attempted extends ResolvedStepOptions {
  readonly f: (step: Step) => unknown;
  /** Errors that no other attempt would change, beside those of every step. */
  readonly isFinal?: ((error: unknown) => boolean) | undefined;
}

export async function runAttempts(
  agent: AttemptsAgent,
  scope: Omit<StepScope, "begun">,
  work: Attempted,
): Promise<StepText> {
  const { retry } = work;
  for (let attempt = 1; ; attempt++) {
    try {
      return toText(scope.name, await runAttempt(agent, scope, { attempt, ...work }));
    } catch (error) {
      await agent.unlessDiscarded();
      if (attempt >= retry.maxAttempts || isFinal(error) || work.isFinal?.(error) === true)
        throw error;
      agent.log.warn("a step failed; it is tried again", {
        step: scope.name,
        attempt,
        error: messageOf(error),
      });
      await agent.sleep(backoffMs(retry, attempt, agent.time.random()));
    }
  }
}

/** A function that outlives its timeout goes on, unheard: JavaScript can't stop it. */
function runAttempt(
  agent: AttemptsAgent,
  scope: Omit<StepScope, "begun">,
  { f, attempt, timeoutMs }: Attempted & { readonly attempt: number },
): Promise<unknown> {
  const { name, key } = scope;
  const controller = new AbortController();
  const either = firstOf(agent.leaving, scope.turn.abort);
  const unheard = either.onFire(() => controller.abort(either.reason));
  return new Promise((resolve, reject) => {
    const cancel = agent.time.after(timeoutMs, () => {
      const late = new StepTimedOut({ step: name, timeoutMs });
      reject(late);
      controller.abort(late);
    });
    const run = async (): Promise<unknown> => f({ name, key, attempt, signal: controller.signal });
    agent
      .inTurn(seenFrom({ ...scope, begun: new Map() }), run)
      .then(resolve, reject)
      .finally(() => {
        cancel();
        unheard();
      });
  });
}

/** Throws an error that names the step; no other attempt would differ. */
function toText(name: string, value: unknown): StepText {
  if (value === undefined) return undefined;
  try {
    assertWireValue(value, `the result of step "${name}"`);
  } catch (error) {
    throw new NotStorable(messageOf(error));
  }
  const text = JSON.stringify(value) as StepText;
  if (text !== undefined && text.length > RESULT_CHARS_MAX)
    throw new StepTooLarge({
      step: name,
      what: `its result is ${text.length} characters of JSON, at most ${RESULT_CHARS_MAX} are kept: return where it is, and not the thing itself`,
    });
  return text;
}

class NotStorable extends TypeError {
  override readonly name = "TypeError";
}

const isFinal = (error: unknown): boolean =>
  error instanceof NotStorable ||
  error instanceof StepTooLarge ||
  error instanceof StepWrites ||
  (error instanceof Error && error.cause instanceof StepWrites) ||
  error instanceof StepNotDurable ||
  error instanceof AgentDiscarded ||
  error instanceof AgentDestroyed ||
  (error instanceof Error && isNonRetryable(error));
