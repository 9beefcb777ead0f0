/** Errors of `this.step`. Each message names the step, and says what to do. */
import * as Data from "effect/Data";

/** `step` in a turn that nothing repeats after a crash, for which no result can be kept. */
export class StepNotDurable extends Data.TaggedError("StepNotDurable")<{
  readonly step: string;
  /** What began the turn: `rpc`, `request`, `message`, … */
  readonly turn: string;
  /** It is a turn of that kind, and has ended. */
  readonly ended?: boolean;
}> {
  override get message(): string {
    if (this.ended === true)
      return `step "${this.step}": its turn (${this.turn}) has ended without waiting for it: await the call of the step`;
    return `step "${this.step}": a turn of this kind (${this.turn}) does not run again after the loss of its host, so it can't have steps. Steps are for webhooks, schedules, queue items, mail, fibers and methods that are @callable({ durable: true }): queue the work with await this.queue("method", payload), and call the step there`;
  }
}

/** The function of a step wrote to the agent. Nothing was written. */
export class StepWrites extends Data.TaggedError("StepWrites")<{ readonly step: string }> {
  override get message(): string {
    return `step "${this.step}": the function of a step can't write to its agent: nothing was written. Return the result, and write it after the step; what a turn writes outside of its steps is applied once`;
  }
}

/** An attempt of a step took longer than its `timeout`. */
export class StepTimedOut extends Data.TaggedError("StepTimedOut")<{
  readonly step: string;
  readonly timeoutMs: number;
}> {
  override get message(): string {
    return `step "${this.step}" took more than ${this.timeoutMs} ms (its timeout)`;
  }
}

/** A step returned more than is kept, or a turn has too many steps. Nothing was kept. */
export class StepTooLarge extends Data.TaggedError("StepTooLarge")<{
  readonly step: string;
  readonly what: string;
}> {
  override get message(): string {
    return `step "${this.step}": ${this.what}`;
  }
}
