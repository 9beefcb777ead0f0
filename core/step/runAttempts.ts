/**
 * Runs the function of a step until it returns: its attempts with their timeout, signal and pauses,
 * and what it returned as JSON text. `AgentSteps` stores the result.
 */
import { AgentDestroyed, AgentDiscarded } from "../errors/errors.ts";
import { reasonText } from "../errors/failureText.ts";
import { firstOf, type Abortable } from "../lazyFetch/AbortSource.ts";
import { backoffMs } from "../retry/retryPolicy.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { StepCounts } from "../turn/StepCounts.ts";
import { seenFrom, type StepScope, type Turn } from "../turn/Turn.ts";
import { runWithin } from "./runWithin.ts";
import type { Step } from "./Step.ts";
import { StepNotDurable, StepTimedOut, StepTooLarge, StepWrites } from "./stepErrors.ts";
import type { ResolvedStepOptions } from "./stepOptions.ts";
import { isFinalForAll, resultText } from "./stepResult.ts";

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
  /** Whether an error is final for this step, beside those that are final for every step. */
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
      agent.log.warn("a step failed and is retried", {
        step: scope.name,
        attempt,
        error: reasonText(error),
      });
      await agent.sleep(backoffMs(retry, attempt, agent.time.random()));
    }
  }
}

function runAttempt(
  agent: AttemptsAgent,
  scope: Omit<StepScope, "begun">,
  { f, attempt, timeoutMs }: Attempted & { readonly attempt: number },
): Promise<unknown> {
  const { name, key } = scope;
  const controller = new AbortController();
  const either = firstOf(agent.leaving, scope.turn.abort);
  const unheard = either.onFire(() => controller.abort(either.reason));
  const ends = {
    late: () => new StepTimedOut({ step: name, timeoutMs }),
    onLate: (error: Error) => controller.abort(error),
  };
  const step = { name, key, attempt, signal: controller.signal };
  const seen = seenFrom({ ...scope, begun: new StepCounts() });
  const run = (): unknown => agent.inTurn(seen, () => f(step));
  return runWithin(agent.time, timeoutMs, ends, run).finally(unheard);
}

const toText = (name: string, value: unknown): StepText =>
  resultText(
    `the result of step "${name}"`,
    value,
    (size) => new StepTooLarge({ step: name, what: `its result is ${size}` }),
  );

const isFinal = (error: unknown): boolean =>
  isFinalForAll(error) ||
  error instanceof StepTooLarge ||
  error instanceof StepWrites ||
  (error instanceof Error && error.cause instanceof StepWrites) ||
  error instanceof StepNotDurable ||
  error instanceof AgentDiscarded ||
  error instanceof AgentDestroyed;
