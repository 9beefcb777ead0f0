/**
 * Keeps the results of steps with the input of their turn: in its events and in the agent's image,
 * until the input is done or dead. While a function runs, what its turn wrote before may be stored
 * as a part, and other writes wait (`core/turn/Holds`). `AgentSteps` makes one for each step.
 */
import type { DoneStep } from "../journal/encodeCommit.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";
import { TurnSteps } from "../turn/TurnSteps.ts";
import { nameOfStep, stepKey } from "./stepKey.ts";
import type { KeptStep, StepStore } from "./StepStore.ts";

export interface InputStepsAgent extends Pick<AgentTurns, "id" | "image" | "committer" | "log"> {
  readonly keeping: { readonly streams: { storeSoon(): void } };
}

export class InputSteps implements StepStore {
  readonly work: string;

  /** `input`: the id of the turn's cause. */
  constructor(
    private readonly agent: InputStepsAgent,
    private readonly turn: Turn,
    input: string,
  ) {
    this.work = input;
  }

  get isOver(): boolean {
    return this.turn.ended;
  }

  get failure(): string | undefined {
    return this.agent.image.undoing(this.work);
  }

  find(key: string): KeptStep | undefined {
    const done = this.agent.image.steps?.get(this.work);
    return done?.has(key) === true ? { text: done.get(key) } : undefined;
  }

  done(): ReadonlyArray<string> {
    return this.agent.image.stepsDone(this.work);
  }

  size(): { readonly steps: number; readonly chars: number } {
    let [steps, chars] = [0, 0];
    for (const text of this.agent.image.steps?.get(this.work)?.values() ?? []) {
      steps++;
      chars += text?.length ?? 0;
    }
    return { steps, chars };
  }

  idempotencyKey(key: string): string {
    return stepKey(this.agent.id, this.turn.cause, key);
  }

  begin(): undefined {
    this.turn.steps!.running++;
    this.agent.committer.beginStep(this.turn);
  }

  end(): void {
    this.turn.steps!.running--;
    this.agent.committer.endStep(this.turn);
  }

  async store(step: DoneStep): Promise<boolean> {
    // A turn that was given up may have failed for good, and then waits for its steps, to undo
    // them.
    const { rest } = this.turn;
    if (rest.ended) {
      if (mayRunAgain(rest)) return false;
      if (rest.outcome?.dead === false) this.reportLate(step, rest);
      return true;
    }
    this.agent.keeping.streams.storeSoon();
    await storeStep(this.agent, rest, step);
    return true;
  }

  private reportLate({ key }: DoneStep, { cause }: Turn): void {
    this.agent.log.warn(
      "a step ended after its turn, and its result was not stored: await this.step and this.fetch",
      { step: nameOfStep(key), turn: cause.kind, id: cause.id, type: cause.type },
    );
  }
}

/** The next attempt of an input that failed joins the step. One that is done or dead has none. */
const mayRunAgain = ({ outcome }: Turn): boolean =>
  outcome === undefined || (!outcome.dead && outcome.done.length === 0);

/** Stores a step's result, or a record of undoing, with the turn's input. */
function storeStep(
  { committer }: Pick<InputStepsAgent, "committer">,
  turn: Turn,
  step: DoneStep,
): Promise<void> {
  (turn.steps ??= new TurnSteps()).add(step);
  return committer.storeSteps(turn);
}
