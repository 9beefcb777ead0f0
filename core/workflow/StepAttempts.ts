/**
 * The attempts of a step's function, until it succeeds or has finally failed. Part of `Execution`,
 * which records the step's end.
 *
 * 1. A function runs at least once, always under the same key: a host that dies in it leaves no
 *    result.
 * 2. An attempt that is interrupted by its host's death spends no retry. `CRASHES_MAX` of them fail
 *    the step, which may be the cause. After a death, an attempt is stored before its function
 *    runs, until one step has ended in this life: each life then spends an attempt or makes
 *    progress. Otherwise it is stored while the function runs. `run` itself is bounded likewise.
 * 3. Each attempt has a timeout (`runWithin`). The signal of its turn (`getCurrentAgent().signal`)
 *    aborts when that is over, or when the run is abandoned.
 * 4. Of very many steps that are called together, some begin at a time (`TimeSlices`). All are
 *    stored at once, so that none is missing before one that is, such as a sleep (`StepOrder`).
 */
import type { AbortSource } from "../lazyFetch/AbortSource.ts";
import { runWithin } from "../step/runWithin.ts";
import { isFinalForAll } from "../step/stepResult.ts";
import { slicesOf } from "../time/TimeSlices.ts";
import { describeThrown, WorkflowTimeoutError } from "./errors.ts";
import type { StepRecord } from "./RunTable.ts";
import { retryDelayMs, type ResolvedConfig } from "./stepConfig.ts";
import {
  causeOf,
  contextOf,
  CRASHES_MAX,
  crashedOut,
  nameOf,
  toResult,
  type Outcome,
} from "./stepFacts.ts";
import type { StepWaits, WaitsHost } from "./StepWaits.ts";
import type { StepContext } from "./WorkflowStep.ts";

export interface AttemptsHost extends Pick<WaitsHost, "isPaused" | "runtime" | "table"> {
  /** Start of the idempotency keys of this generation. */
  readonly keys: string;
  /** How often the drive was journaled as begun. Above 0, hosts may have died of it (rule 2). */
  readonly begun: () => number;
}

/** The run whose steps are attempted. */
interface AttemptsOwner {
  readonly waits: Pick<StepWaits, "add" | "unpaused">;
  isAbandoned(): boolean;
  /** A step has ended in this life, and its end is stored (rule 2). */
  hasProgress(): boolean;
  /** The step is neither retried nor begun again: the run has failed or ended. */
  isFailing(record: StepRecord): boolean;
  /** Called when an attempt begins. */
  begins(): void;
  /** Called when an attempt has ended. */
  ended(): void;
  /** Called when a step is left without an end. */
  look(): void;
  settle(record: StepRecord, outcome: Outcome): Promise<void>;
  /** Whether the error says that the agent is discarded. */
  lost(error: unknown): boolean;
}

export class StepAttempts {
  private readonly running = new Set<AbortSource>();

  constructor(
    private readonly host: AttemptsHost,
    private readonly owner: AttemptsOwner,
  ) {}

  /** Aborts those that run. */
  abandon(): void {
    for (const each of this.running) each.fire();
  }

  /** From where the record left off. Rejects if the step's end can't be recorded. */
  async run(
    record: StepRecord,
    config: ResolvedConfig,
    f: (ctx: StepContext) => unknown,
  ): Promise<void> {
    const { runtime, isPaused } = this.host;
    const { owner } = this;
    // A pause that is recorded already has its wake.
    let isNew = false;
    for (;;) {
      if (owner.isFailing(record)) return owner.look();
      if (record.dueMs !== null) await this.retryPause(record, isNew);
      isNew = true;
      if (isPaused()) await owner.waits.unpaused(record);
      if (owner.isAbandoned()) return;
      if (owner.isFailing(record)) return owner.look();
      if (record.attempts - record.failures >= CRASHES_MAX)
        return owner.settle(record, { error: crashedOut(record) });
      owner.begins();
      record.attempts++;
      const made = await this.attempt(record, config, f);
      owner.ended();
      if (owner.isAbandoned() || (made !== undefined && "error" in made && owner.lost(made.error)))
        return;
      if (made === undefined) {
        record.attempts--;
        continue;
      }
      if ("result" in made) return owner.settle(record, made);
      const failures = record.failures + 1;
      if (failures > config.limit || owner.isFailing(record) || isFinalForAll(made.error))
        return owner.settle(record, { error: describeThrown(made.error) });
      record.failures = failures;
      record.dueMs = runtime.time.nowMs() + retryDelayMs(config, failures);
      runtime.log.warn("a workflow's step failed and is retried", {
        step: record.key,
        attempt: record.attempts,
        error: describeThrown(made.error).message,
      });
    }
  }

  /** One attempt. `error` is what it threw. Undefined: its function was not called. */
  private async attempt(
    record: StepRecord,
    config: ResolvedConfig,
    f: (ctx: StepContext) => unknown,
  ): Promise<{ readonly result: string | null } | { readonly error: unknown } | undefined> {
    const { runtime, table, keys, begun, isPaused } = this.host;
    const { owner } = this;
    const { attempts } = record;
    const ctx = contextOf(keys, record, attempts);
    const pause = slicesOf(runtime.time).turn(runtime.id);
    try {
      // Rule 4.
      if (pause !== undefined) {
        await runtime.asTurn(causeOf(record, attempts), async () => table.put(record));
        await pause;
        if (owner.isAbandoned() || isPaused() || owner.isFailing(record)) return undefined;
      }
      return await runtime.asTurn(causeOf(record, attempts), async () => {
        if (pause === undefined) table.put(record);
        if (!owner.hasProgress() && begun() > 0) {
          await runtime.flush();
          // Paused or ended meanwhile: the step does not begin.
          if (owner.isAbandoned() || isPaused()) return undefined;
        }
        const value = await this.within(record, config.timeoutMs, () => f(ctx));
        return { result: toResult(record, value) };
      });
    } catch (error) {
      return { error };
    }
  }

  private retryPause(record: StepRecord, isNew: boolean): Promise<void> {
    return new Promise((resolve) => {
      this.owner.waits.add(record, isNew, () => {
        record.dueMs = null;
        resolve();
      });
    });
  }

  /** Rule 3. Called in the attempt's turn. */
  private within(record: StepRecord, timeoutMs: number, f: () => unknown): Promise<unknown> {
    const { time, abandoned } = this.host.runtime;
    this.running.add(abandoned);
    const ends = {
      late: () =>
        new WorkflowTimeoutError(`step "${nameOf(record)}" took more than ${timeoutMs} ms`),
      onLate: (error: Error) => abandoned.fire(error),
    };
    const over = (): void => void this.running.delete(abandoned);
    return runWithin(time, timeoutMs, ends, f).finally(over);
  }
}
