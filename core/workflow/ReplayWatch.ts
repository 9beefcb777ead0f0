/**
 * Ends the replay of code that no longer calls a recorded step, such as a branch that ran in
 * parallel. The results of other steps wait for that step (`StepOrder`, rule 1). Nothing else would
 * end their wait, because neither the code nor a step is running then.
 */
import type { TimeShape } from "../time/Time.ts";
import { WorkflowCodeChanged } from "./errors.ts";
import { notCalled, type StepOrder } from "./StepOrder.ts";

/**
 * A replay calls recorded steps at once, except after awaits outside of steps, which rarely take
 * longer than an HTTP request.
 */
const REPLAY_MS_MAX = 600_000;

export class ReplayWatch {
  private cancel = (): void => undefined;
  private stopped = false;

  constructor(
    private readonly time: Pick<TimeShape, "after">,
    private readonly onChanged: (error: WorkflowCodeChanged) => void,
  ) {}

  /** A step was called, or has ended: restarts the timeout. */
  look(order: StepOrder): void {
    this.cancel();
    const { missing } = order;
    if (missing !== undefined && !this.stopped)
      this.cancel = this.time.after(REPLAY_MS_MAX, () => this.onChanged(notCalled(missing)));
  }

  /** Stops it: `run` has ended. */
  stop(): void {
    this.stopped = true;
    this.cancel();
  }
}
