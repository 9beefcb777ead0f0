/**
 * Runs the steps of an agent's durable turns and fibers. A step calls the world, and its result is
 * stored before the code after it runs. When the turn runs again, or the fiber goes on, on any
 * host, a step that is done does not run: its result is returned.
 *
 * 1. A step is identified by its name and by how many of that name were begun before it in the run.
 *    Code that asks for other steps, or in another order, receives the results of those that have
 *    the same key, and runs the others.
 * 2. A step that failed is not done: it runs again when the turn does, with the same idempotency
 *    key.
 * 3. The function of a step does not write (`StepWrites`). What the turn writes outside of its
 *    steps applies once (`core/turn/Holds`).
 * 4. A step that still runs when its turn's attempt has failed, or whose result is being stored, is
 *    joined by the next attempt.
 * 5. Steps of a turn that has ended, failed or is full are refused, after some at a pace
 *    (`REFUSAL_MS`), so that code which repeats one in a loop does not hold the thread.
 * 6. When a past turn is run again (`RecordedSteps`), no step runs: each has its recorded result.
 *
 * `Agent.step` and `AgentFetch` are the API; a `StepStore` keeps the results.
 */
import type { StepRequest } from "../../schemas/JournalEvent.ts";
import { errorOfFailure, failureText } from "../errors/failureText.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { UNDOING } from "../journal/AgentImage.ts";
import type { AgentTurns, Undone } from "../turn/AgentTurns.ts";
import type { StepScope, Turn } from "../turn/Turn.ts";
import { TurnSteps } from "../turn/TurnSteps.ts";
import { sleep } from "../time/sleep.ts";
import { InputSteps, type InputStepsAgent } from "./InputSteps.ts";
import type { RecordedSteps } from "./RecordedSteps.ts";
import { runAttempts, type Attempted, type AttemptsAgent, type StepText } from "./runAttempts.ts";
import type { Step, StepOptions } from "./Step.ts";
import { StepNotDurable, StepTooLarge } from "./stepErrors.ts";
import { checkStepName, REFUSAL_MS, REFUSALS_AT_ONCE } from "./stepKey.ts";
import { resolveStepOptions } from "./stepOptions.ts";
import type { StepStore } from "./StepStore.ts";
import { undoKey, undoSteps } from "./undoSteps.ts";

/** A turn or fiber with more steps is an endless loop, or work for a workflow. */
const STEPS_MAX = 1000;
/** UTF-16 units of JSON for one turn or fiber. A turn's are in memory and in each snapshot. */
const RESULTS_CHARS_MAX = 64 * 1024 * 1024;
/**
 * The most results kept for turns whose attempt has failed, and UTF-16 units of them: as much as
 * one result may have. They may never be asked for again, so the oldest are forgotten first.
 */
const LEFT_MAX = 1000;
const LEFT_CHARS_MAX = 16 * 1024 * 1024;

export interface StepsAgent extends AttemptsAgent, InputStepsAgent, Pick<AgentTurns, "turn"> {
  readonly options: { readonly retry?: RetryOptions };
  /** The step whose function runs. */
  readonly currentStep: StepScope | undefined;
  readonly parts: { readonly recorded?: RecordedSteps | undefined };
}

/** Where the steps of fibers are kept. */
export interface StepsOfFibers {
  /** Undefined: the turn is no fiber's. */
  of(turn: Turn): StepStore | undefined;
}

type UndoFunction = (result: unknown, step: Step) => unknown;

/** What a step does, with its options resolved. */
interface StepWork extends Attempted {
  readonly name: string;
  readonly undo?: UndoFunction;
  /** Present if the step is a `fetch`. */
  readonly asks?: {
    readonly request: () => Promise<StepRequest>;
    /** The request is stored with the answer. */
    readonly record: boolean;
    /** The answer is not a success: the turn's next attempt makes the request again. */
    readonly isAgain: (answer: StepText) => boolean;
  };
}

interface Made {
  readonly text: StepText;
  readonly request: StepRequest | undefined;
}

/** Rule 4. */
interface Running {
  readonly made: Promise<Made>;
  /** UTF-16 units of its result, once that waits for the next attempt. */
  leftChars: number;
}

export class AgentSteps {
  /** By work and step. */
  private readonly running = new Map<string, Running>();
  private leftChars = 0;

  constructor(
    private readonly agent: StepsAgent,
    private readonly fibers: StepsOfFibers,
  ) {}

  /** Where the results of the turn's steps are kept. Undefined: it can have none. */
  storeOf(turn: Turn): StepStore | undefined {
    const { durable, cause } = turn;
    if (durable && cause.id !== undefined) return new InputSteps(this.agent, turn, cause.id);
    return this.fibers.of(turn);
  }

  /** See `Agent.step`. */
  async run<A>(
    name: string,
    f: (step: Step) => A | Promise<A>,
    options: StepOptions<A>,
  ): Promise<A> {
    checkStepName(name, "step(name, f)");
    if (typeof f !== "function")
      throw new TypeError(`step("${name}", f): the second argument must be a function`);
    const resolved = resolveStepOptions(name, this.agent.options.retry, options);
    const { undo } = options;
    const text = await this.take({
      name,
      f,
      ...resolved,
      ...(undo && { undo: undo as UndoFunction }),
    });
    // Each reader receives a value of its own.
    return (text === undefined ? undefined : JSON.parse(text)) as A;
  }

  /** The result of the next step of that name: the stored one, or one made and stored now. */
  async take(work: StepWork): Promise<StepText> {
    const { agent } = this;
    const { asks } = work;
    const turn = agent.turn();
    // The name is journaled as a part of the key.
    const name = turn.conceal(work.name);
    const store = this.storeOf(turn);
    const { kind } = turn.cause;
    if (store === undefined) throw new StepNotDurable({ step: name, turn: kind });
    if (store.isOver)
      return this.refuse(turn, new StepNotDurable({ step: name, turn: kind, ended: true }));
    const steps = (turn.steps ??= new TurnSteps());
    const id = steps.nextKey(name, agent.currentStep);
    if (work.undo !== undefined)
      steps.undos.set(id, { name, run: () => this.undoStep(turn.rest, work, id) });
    const done = store.find(id);
    const { failure } = store;
    let text: StepText;
    if (done !== undefined) text = done.text;
    else if (failure !== undefined) return this.refuse(turn, errorOfFailure(failure));
    else {
      const full = noRoom(name, steps.asked.size - 1, store);
      if (full !== undefined) return this.refuse(turn, full);
      const scope = { name, id, key: store.idempotencyKey(id), turn };
      const made = this.make(scope, work, store);
      steps.inFlight.add(made);
      try {
        text = await made;
      } catch (error) {
        steps.runAgain(id, turn.conceal(failureText(error)));
        throw error;
      } finally {
        steps.inFlight.delete(made);
      }
    }
    if (asks?.isAgain(text) === true) steps.runAgain(id);
    return text;
  }

  /** Undoes the done steps of a turn or fiber that failed. Rejects with `AgentDiscarded`. */
  async undo(turn: Turn, failure: string): Promise<Undone> {
    const store = this.storeOf(turn);
    const steps = (turn.steps ??= new TurnSteps());
    const isDone = (key: string): boolean => store?.find(key) !== undefined;
    const mayUndo = [...steps.undos.keys()].some((key) => isDone(key) || steps.inFlight.size > 0);
    const begun = store?.failure !== undefined;
    if (store === undefined || !(mayUndo || begun)) return { reason: failure, undone: false };
    if (!begun) await store.store({ key: UNDOING, text: JSON.stringify(failure) });
    while (steps.inFlight.size > 0) await Promise.allSettled(steps.inFlight);
    await this.agent.unlessDiscarded();
    const undos = [...steps.undos].filter(([key]) => isDone(key)).map(([, undo]) => undo);
    const lost = store.done().filter((key) => !steps.asked.has(key));
    return { reason: await undoSteps(failure, undos, lost), undone: undos.length > 0 };
  }

  /** Rule 5. */
  private async refuse(turn: Turn, error: Error): Promise<never> {
    const steps = (turn.steps ??= new TurnSteps());
    if (++steps.refused > REFUSALS_AT_ONCE) await sleep(this.agent.time, REFUSAL_MS);
    throw error;
  }

  /** Makes the result of a step and stores it. Rejects as its function does. */
  private async make(
    scope: Omit<StepScope, "begun">,
    work: StepWork,
    store: StepStore,
  ): Promise<StepText> {
    const begun = store.begin();
    try {
      if (begun !== undefined) await begun;
      const running = JSON.stringify([store.work, scope.id]);
      const { text, request } = await this.join(running, () => this.perform(scope, work));
      await this.agent.unlessDiscarded();
      if (await store.store({ key: scope.id, text, request })) this.drop(running);
      else this.leave(running, text?.length ?? 0);
      return text;
    } finally {
      store.end();
    }
  }

  /** As `StepUndo.run`, for a done step. The record of the undo's end has its error, if any. */
  private async undoStep(turn: Turn, work: StepWork, of: string): Promise<void> {
    const store = this.storeOf(turn)!;
    const id = undoKey(of);
    if (store.find(id) === undefined) {
      const name = `undo ${work.name}`;
      const scope = { name, id, key: store.idempotencyKey(id), turn };
      const { retry, timeoutMs, undo } = work;
      const text = store.find(of)!.text;
      const result: unknown = text === undefined ? undefined : JSON.parse(text);
      const f = async (step: Step): Promise<void> => void (await undo!(result, step));
      try {
        await this.make(scope, { name, f, retry, timeoutMs }, store);
      } catch (error) {
        await this.agent.unlessDiscarded();
        const failed = JSON.stringify(turn.conceal(failureText(error)));
        await store.store({ key: id, text: failed });
      }
    }
    const failed = store.find(id)?.text;
    if (failed !== undefined) throw errorOfFailure(JSON.parse(failed) as string);
  }

  /** Rule 4. */
  private async join(key: string, begin: () => Promise<Made>): Promise<Made> {
    let running = this.running.get(key);
    if (running === undefined) {
      running = { made: begin(), leftChars: 0 };
      this.running.set(key, running);
      if (this.running.size > LEFT_MAX) this.drop(this.running.keys().next().value!);
    }
    try {
      return await running.made;
    } catch (error) {
      this.drop(key);
      throw error;
    }
  }

  /** The result waits for the next attempt of its turn. */
  private leave(key: string, chars: number): void {
    const left = this.running.get(key);
    if (left === undefined) return;
    this.leftChars += chars - left.leftChars;
    left.leftChars = chars;
    for (const [oldest, { leftChars }] of this.running) {
      if (this.leftChars <= LEFT_CHARS_MAX) return;
      if (leftChars > 0) this.drop(oldest);
    }
  }

  private drop(key: string): void {
    this.leftChars -= this.running.get(key)?.leftChars ?? 0;
    this.running.delete(key);
  }

  private async perform(scope: Omit<StepScope, "begun">, work: StepWork): Promise<Made> {
    const { agent } = this;
    const { asks } = work;
    const { durable, cause } = scope.turn;
    const past = durable ? agent.parts.recorded?.of(cause) : undefined;
    // Rule 6.
    if (past !== undefined)
      return { text: past.take(scope.id, await asks?.request()), request: undefined };
    const request = asks?.record === true ? asked(scope.turn, await asks.request()) : undefined;
    return { text: await runAttempts(agent, scope, work), request };
  }
}

/** The error if a turn already has as many steps, or as large results, as it may. */
function noRoom(step: string, asked: number, store: StepStore): StepTooLarge | undefined {
  const { steps, chars } = store.size();
  if (Math.max(steps, asked) >= STEPS_MAX)
    return new StepTooLarge({
      step,
      what: `a turn has at most ${STEPS_MAX} steps: use a workflow, or several queue items`,
    });
  if (chars >= RESULTS_CHARS_MAX)
    return new StepTooLarge({
      step,
      what: `the results of its turn's steps are already ${chars} characters of JSON, and the limit is ${RESULTS_CHARS_MAX}: return references to data, or use several queue items`,
    });
  return undefined;
}

/** The request without the values that the turn's route hides. */
const asked = (turn: Turn, request: StepRequest): StepRequest =>
  turn.hides ? (JSON.parse(turn.conceal(JSON.stringify(request))) as StepRequest) : request;
