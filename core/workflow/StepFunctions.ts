/**
 * The functions of a workflow's steps while they run: each has a timeout (`runWithin`), and the
 * signal of its turn (`getCurrentAgent().signal`) aborts when that is over, or when the run is
 * terminated. Part of `Execution`.
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import type { AbortSource } from "../lazyFetch/AbortSource.ts";
import { runWithin } from "../step/runWithin.ts";
import { WorkflowTimeoutError } from "./errors.ts";

export class StepFunctions {
  readonly #runtime: Pick<AgentWork, "time" | "abandoned">;
  readonly #running = new Set<AbortSource>();

  constructor(runtime: Pick<AgentWork, "time" | "abandoned">) {
    this.#runtime = runtime;
  }

  /** Called in the step's turn. Settles as `f` does, or rejects with `WorkflowTimeoutError`. */
  run(step: string, timeoutMs: number, f: () => unknown): Promise<unknown> {
    const { time, abandoned } = this.#runtime;
    this.#running.add(abandoned);
    const ends = {
      late: () => new WorkflowTimeoutError(`step "${step}" took more than ${timeoutMs} ms`),
      onLate: (error: Error) => abandoned.fire(error),
    };
    const over = (): void => void this.#running.delete(abandoned);
    return runWithin(time, timeoutMs, ends, f).finally(over);
  }

  /** Aborts all of them. */
  abandon(): void {
    for (const each of this.#running) each.fire();
  }
}
