/**
 * Recovers the fibers that an earlier owner left behind: passes each to `onFiberRecovered`, one by
 * one, and settles it as that says. `Fibers` owns it and says when.
 *
 * 1. A recovery's start is stored first, so one that keeps killing hosts is given up.
 * 2. One that throws is tried again by a later alarm until the fiber is too old; a fiber of
 *    `startFiber` records the error.
 */
import { messageOf } from "../errors/thrown.ts";
import { notUndone } from "../step/undoSteps.ts";
import { settlesWithin } from "../time/settlesWithin.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { FiberOptions, FiberRecoveryContext, FiberRecoveryResult } from "./Fiber.ts";
import { contextOf, type FiberRow, type FiberTable } from "./FiberTable.ts";

/**
 * How often the recovery of a fiber may be interrupted before the fiber is given up. As often as a
 * workflow's step (`Execution`): most hosts died of something else, and work that is given up is
 * lost.
 */
export const RECOVERIES_MAX = 20;

/** Start of the cause's type in the journal for what a recovery did; the fiber's name follows. */
const RECOVERY_TYPE = "recovery of fiber ";

/** What the agent's class decides. */
export interface RecoveryOwner {
  readonly steps: {
    /** Keys of a fiber's done steps. */
    done(fiber: string): ReadonlyArray<string>;
    /** Why a fiber has failed, once it is being undone. */
    failure(fiber: string): string | undefined;
  };
  readonly onRecovered: (
    context: FiberRecoveryContext,
  ) => Promise<void | FiberRecoveryResult> | void | FiberRecoveryResult;
}

/** The fibers in memory, and their rows. */
interface RecoveryFibers {
  readonly table: FiberTable;
  isRunning(id: string): boolean;
  resolve(id: string, result: FiberRecoveryResult): boolean;
  /** Called when a fiber has ended: what was kept for it is dropped. */
  dropKept(id: string): void;
  /** Called when all were passed on. */
  restIfDone(): void;
}

type RecoveryRuntime = Pick<
  AgentWork,
  "currentCause" | "emit" | "flush" | "inBackground" | "keepAlive" | "leaving" | "log" | "time"
>;

export class FiberRecovery {
  readonly #runtime: RecoveryRuntime;
  readonly #owner: RecoveryOwner;
  readonly #options: Required<FiberOptions>;
  readonly #fibers: RecoveryFibers;
  #recovering: Promise<void> | undefined;

  constructor(
    runtime: RecoveryRuntime,
    owner: RecoveryOwner,
    options: Required<FiberOptions>,
    fibers: RecoveryFibers,
  ) {
    this.#runtime = runtime;
    this.#owner = owner;
    this.#options = options;
    this.#fibers = fibers;
  }

  /** Passes what an earlier owner left to `onFiberRecovered`, one by one. Never rejects. */
  all(): Promise<void> {
    return (this.#recovering ??= this.#recoverAll().finally(() => (this.#recovering = undefined)));
  }

  /** As `all`, for the agent's start, which waits for a limited time. */
  async first(): Promise<void> {
    const { fiberRecoveryScanDeadlineMs: deadlineMs } = this.#options;
    const recovered = this.all();
    if (deadlineMs > 0) await settlesWithin(this.#runtime.time, deadlineMs, recovered);
    else await recovered;
  }

  /** The interrupted fiber in whose recovery this code runs, until another replaces it. */
  here(): FiberRow | undefined {
    const { type = "", id = "" } = this.#runtime.currentCause() ?? {};
    const row = type.startsWith(RECOVERY_TYPE) ? this.#fibers.table.get(id) : undefined;
    return row?.owed === true ? row : undefined;
  }

  async #recoverAll(): Promise<void> {
    try {
      for (const { id } of this.#fibers.table.owed()) {
        // It may have been cancelled while another one was recovered.
        const row = this.#fibers.table.get(id);
        if (row?.owed === true && !this.#fibers.isRunning(id)) await this.#recover(row);
      }
      this.#fibers.restIfDone();
    } catch (error) {
      if (this.#runtime.leaving.fired) return;
      this.#runtime.log.error("interrupted fibers could not be recovered; the alarm tries again", {
        error: messageOf(error),
      });
    }
  }

  async #recover(row: FiberRow): Promise<void> {
    const { id, kept } = row;
    const runtime = this.#runtime;
    const startedMs = runtime.time.nowMs();
    const told = { fiberId: id, fiberName: row.name, managed: kept, recoveryReason: "interrupted" };
    const emit = (type: string, more: object = {}, sinceMs = startedMs): void =>
      runtime.emit(type, { ...told, ...more, elapsedMs: runtime.time.nowMs() - sinceMs });
    if (row.recoveries === 0 && row.failures === 0) {
      emit("fiber:recovery:detected", {}, row.createdMs);
      emit("fiber:run:interrupted", {}, row.createdMs);
    }
    if (row.recoveries >= RECOVERIES_MAX) {
      this.#giveUp(row, `its recovery was started ${row.recoveries} times and never ended`);
      return emit("fiber:recovery:skipped", { reason: "max_attempts_exceeded" }, row.createdMs);
    }
    this.#fibers.table.interrupt(id);
    await runtime.flush(); // rule 1
    const release = runtime.keepAlive();
    emit("fiber:recovery:attempt");
    try {
      const cause = { kind: "background", type: `${RECOVERY_TYPE}${row.name}`, id } as const;
      const result = await runtime.inBackground(
        async () => this.#owner.onRecovered(contextOf(row)),
        cause,
      );
      if (result !== undefined) this.#fibers.resolve(id, result);
      const failed = this.#owner.steps.failure(id);
      if (failed !== undefined)
        runtime.log.error("a fiber failed and was not begun again, so not all of it was undone", {
          fiber: row.name,
          id,
          error: notUndone(failed, this.#owner.steps.done(id)),
        });
      this.#fibers.table.recovered(row);
      this.#fibers.dropKept(id);
      emit("fiber:recovery:handled", { status: kept ? "managed" : "user" });
    } catch (error) {
      // The recovery did not fail: the next owner begins it again.
      if (runtime.leaving.fired) throw error;
      runtime.log.error("onFiberRecovered failed", {
        fiber: row.name,
        id,
        error: messageOf(error),
      });
      this.#failed(row, error);
      emit("fiber:recovery:failed", { error: messageOf(error), reason: "handler_error" });
    } finally {
      release();
    }
  }

  /** A kept fiber records the error; any other is tried again until it is too old. */
  #failed(row: FiberRow, error: unknown): void {
    const { fiberRecoveryMaxAgeMs: maxAgeMs } = this.#options;
    const tooOld = maxAgeMs > 0 && this.#runtime.time.nowMs() - row.createdMs > maxAgeMs;
    if (row.kept || tooOld) this.#giveUp(row, messageOf(error));
    else this.#fibers.table.recoverLater(row.id);
  }

  #giveUp(row: FiberRow, why: string): void {
    const { id, kept, name } = row;
    const { steps } = this.#owner;
    why = notUndone(steps.failure(id) ?? why, steps.done(id));
    this.#runtime.log.error("an interrupted fiber is given up", { fiber: name, id, why });
    this.#fibers.dropKept(id);
    if (!kept) return this.#fibers.table.remove(id);
    this.#fibers.table.interrupt(id);
    this.#fibers.resolve(id, { status: "error", error: why });
    this.#fibers.table.recovered(row);
  }
}
