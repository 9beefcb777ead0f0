/**
 * Runs the steps of an agent's durable turns. A step calls the world, and what it returns is
 * journaled before the code after it runs. When the turn runs again, on any host, a step that is
 * done is not run: its result is given back.
 *
 * 1. A step is known by its name and by how many of that name were begun before it in the run. Code
 *    that asks for other steps, or in another order, gets the results of those it asks for by that
 *    key, and runs the others.
 * 2. A step that failed is not done: it runs again when the turn does, with the same idempotency
 *    key.
 * 3. The function of a step does not write (`StepWrites`). What the turn writes outside of its
 *    steps applies once (`core/turn/Holds`).
 * 4. A step that still runs when its turn's attempt has failed, or whose result is being stored, is
 *    joined by the next attempt.
 *
 * `Agent.step` is the API; `Committer` stores the results, `applyEvent` keeps them.
 */
import { TurnSteps } from "../turn/TurnSteps.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { seenFrom, type StepScope, type Turn } from "../turn/Turn.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { assertWireValue } from "../call/wireValue.ts";
import { backoffMs } from "../retry/retryPolicy.ts";
import { isNonRetryable } from "../workflow/stepFacts.ts";
import { AgentDestroyed, AgentDiscarded } from "../errors/errors.ts";
import { firstOf, type Abortable } from "../http/AbortSource.ts";
import type { Step, StepOptions } from "./Step.ts";
import { checkStepName, resolveStepOptions, type ResolvedStepOptions } from "./stepOptions.ts";
import { StepNotDurable, StepTimedOut, StepTooLarge, StepWrites } from "./stepErrors.ts";
import { stepKey } from "./stepKey.ts";

/** A turn with more of them is a loop without an end, or work for a workflow. */
const STEPS_MAX = 1000;
/** UTF-16 units of JSON. As much as of a state: it is kept in memory until the turn ends. */
const RESULT_CHARS_MAX = 16 * 1024 * 1024;
/**
 * The most results kept for turns whose attempt has failed. Nobody may ask for them again: the
 * oldest are forgotten first.
 */
const LEFT_MAX = 1000;

export interface StepsAgent extends Pick<
  AgentTurns,
  "id" | "image" | "committer" | "log" | "sleep" | "time" | "turn" | "unlessDiscarded"
> {
  readonly options: { readonly retry?: RetryOptions };
  /** Fires when the agent leaves memory. */
  readonly leaving: Abortable;
  readonly keeping: { readonly streams: { storeSoon(): void } };
  /** Runs `f` as part of a turn. */
  inTurn<A>(turn: Turn, f: () => A): A;
}

/** JSON text; undefined for `undefined`. */
type Text = string | undefined;

export class AgentSteps {
  private readonly agent: StepsAgent;
  /** Rule 4, by input and step. */
  private readonly running = new Map<string, Promise<Text>>();

  constructor(agent: StepsAgent) {
    this.agent = agent;
  }

  /** See `Agent.step`. */
  async run<A>(name: string, f: (step: Step) => A | Promise<A>, options: StepOptions): Promise<A> {
    checkStepName(name);
    if (typeof f !== "function")
      throw new TypeError(`step("${name}", f): the second argument is a function`);
    const { agent } = this;
    const turn = agent.turn();
    const { id: input, kind } = turn.cause;
    if (!turn.durable || input === undefined || turn.ended)
      throw new StepNotDurable({ step: name, turn: kind });
    const resolved = resolveStepOptions(name, agent.options.retry, options);
    const steps = (turn.steps ??= new TurnSteps());
    const key = steps.nextKey(name);
    const done = agent.image.steps.get(input);
    if (done?.has(key) === true) return read(done.get(key)) as A;
    if ((done?.size ?? 0) >= STEPS_MAX)
      throw new StepTooLarge({
        step: name,
        what: `a turn has at most ${STEPS_MAX} steps: use a workflow, or several queue items`,
      });
    steps.running++;
    agent.committer.beginStep(turn);
    try {
      const scope = { name, key: stepKey(agent.id, input, key), turn };
      const running = `${input}\n${key}`;
      const text = await this.join(running, () => this.attempts(scope, f, resolved));
      await agent.unlessDiscarded();
      if (turn.ended) return read(text) as A;
      agent.keeping.streams.storeSoon();
      steps.add({ key, text });
      await agent.committer.storeSteps(turn);
      this.running.delete(running);
      return read(text) as A;
    } finally {
      steps.running--;
      agent.committer.endStep(turn);
    }
  }

  /** Rule 4. */
  private async join(key: string, begin: () => Promise<Text>): Promise<Text> {
    let running = this.running.get(key);
    if (running === undefined) {
      running = begin();
      this.running.set(key, running);
      if (this.running.size > LEFT_MAX) this.running.delete(this.running.keys().next().value!);
    }
    try {
      return await running;
    } catch (error) {
      this.running.delete(key);
      throw error;
    }
  }

  private async attempts(
    scope: StepScope,
    f: (step: Step) => unknown,
    options: ResolvedStepOptions,
  ): Promise<Text> {
    const { agent } = this;
    const { retry } = options;
    for (let attempt = 1; ; attempt++) {
      try {
        return toText(scope.name, await this.attempt(scope, f, { attempt, ...options }));
      } catch (error) {
        await agent.unlessDiscarded();
        if (attempt >= retry.maxAttempts || isFinal(error)) throw error;
        agent.log.warn("a step failed; it is tried again", {
          step: scope.name,
          attempt,
          error: error instanceof Error ? error.message : String(error),
        });
        await agent.sleep(backoffMs(retry, attempt, agent.time.random()));
      }
    }
  }

  /** A function that outlives its timeout goes on, unheard: JavaScript can't stop it. */
  private attempt(
    scope: StepScope,
    f: (step: Step) => unknown,
    { attempt, timeoutMs }: { readonly attempt: number; readonly timeoutMs: number },
  ): Promise<unknown> {
    const { time, leaving } = this.agent;
    const { name, key } = scope;
    const controller = new AbortController();
    const { abort } = scope.turn;
    const either = firstOf(leaving, abort);
    const unheard = either.onFire(() => controller.abort(either.reason));
    return new Promise((resolve, reject) => {
      const cancel = time.after(timeoutMs, () => {
        const late = new StepTimedOut({ step: name, timeoutMs });
        reject(late);
        controller.abort(late);
      });
      const run = async (): Promise<unknown> =>
        f({ name, key, attempt, signal: controller.signal });
      this.agent
        .inTurn(seenFrom(scope), run)
        .then(resolve, reject)
        .finally(() => {
          cancel();
          unheard();
        });
    });
  }
}

/** Each reader has a value of its own. */
const read = (text: Text): unknown => (text === undefined ? undefined : JSON.parse(text));

/** Throws an error that names the step; no other attempt would differ. */
function toText(name: string, value: unknown): Text {
  if (value === undefined) return undefined;
  try {
    assertWireValue(value, `the result of step "${name}"`);
  } catch (error) {
    throw new NotStorable(error instanceof Error ? error.message : String(error));
  }
  const text = JSON.stringify(value) as Text;
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
