/**
 * Runs the fibers of an agent in memory. `FiberRecovery` recovers those that an earlier owner left.
 *
 * 1. A fiber's row is stored before its function begins, for `startFiber` in a commit that stands
 *    (`undoParts`), and is marked as owed until the function has ended. No turn waits for the
 *    function: the agent can be handed over in the middle of it, and its later writes are refused.
 * 2. While any fiber is owed, the agent has an alarm: a schedule that `getSchedules` hides. It
 *    wakes a new owner, which recovers each fiber that it does not run.
 * 3. A fiber that begins in a recovery replaces the interrupted one in one commit. It starts with
 *    that one's stash, approvals and steps, and with its metadata unless it has its own. A host's
 *    death there neither loses the work nor doubles it.
 * 4. A fiber whose function fails is undone first: the undos of its done steps run as its steps
 *    (`undoSteps`). It can't be cancelled meanwhile. One that is cancelled, or ends without its
 *    function, undoes nothing: its record names the steps that were done.
 * 5. An id may be used again while the function of a cancelled fiber still runs. Neither its end
 *    nor its stashes and steps change the new fiber.
 *
 * `FiberApi` reads the calls of `Agent`.
 */
import type { SchedulesOfAgent } from "../schedule/ScheduleTable.ts";
import { withDefaults } from "../collections/withDefaults.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import { jsonText } from "../journal/jsonText.ts";
import { errorOfFailure } from "../errors/failureText.ts";
import { messageOf } from "../errors/thrown.ts";
import {
  CAUSE_TYPE,
  FIBER_OPTIONS_DEFAULT,
  fiberOf,
  reasonOf,
  type FiberContext,
  type FiberFunction,
  type FiberOptions,
  type FiberRecoveryResult,
  type FiberStatus,
  type KeptOfFibers,
} from "./Fiber.ts";
import { FiberAlarm } from "./FiberAlarm.ts";
import { FiberRecovery, type RecoveryOwner } from "./FiberRecovery.ts";
import { FiberTable, hasEnded, metadataOf } from "./FiberTable.ts";

/** One run of a fiber. */
interface Running {
  readonly id: string;
  readonly name: string;
  /** Begun by `startFiber`. */
  readonly kept: boolean;
  readonly controller: AbortController;
  /** Resolves when its row says that it has ended, whether its function has or not. */
  readonly settled: Promise<void>;
  readonly settle: () => void;
}

/** What the agent's class decides. */
interface FiberOwner extends RecoveryOwner {
  readonly options: FiberOptions;
  readonly kept: ReadonlyArray<KeptOfFibers>;
  readonly steps: RecoveryOwner["steps"] & {
    /** Undoes the steps of the running fiber. Resolves to the failure, and what was undone. */
    undo(failure: string): Promise<string>;
  };
}

/** The agent that fibers run on. */
interface FiberRuntime extends AgentWork {
  readonly scheduler: SchedulesOfAgent;
  /** `parts`: turns at the journal's end that the next owner would undo. */
  readonly image: Pick<AgentImage, "parts">;
}

export class Fibers {
  readonly table: FiberTable;
  readonly #runtime: FiberRuntime;
  readonly #owner: FiberOwner;
  readonly #recovery: FiberRecovery;
  readonly #alarm: FiberAlarm;
  readonly #running = new Map<string, Running>();

  constructor(runtime: FiberRuntime, owner: FiberOwner) {
    this.table = new FiberTable(runtime);
    this.#runtime = runtime;
    this.#owner = owner;
    const options = withDefaults<Required<FiberOptions>>(FIBER_OPTIONS_DEFAULT, owner.options);
    this.#alarm = new FiberAlarm(runtime, options.keepAliveIntervalMs);
    this.#recovery = new FiberRecovery(runtime, owner, options, {
      table: this.table,
      isRunning: (id) => this.#running.has(id),
      resolve: (id, result) => this.resolve(id, result),
      dropKept: (id) => this.#dropKept(id),
      restIfDone: () => this.#restIfDone(),
    });
    const { leaving } = runtime;
    leaving.onFire(() => {
      for (const { controller } of this.#running.values()) controller.abort(leaving.reason);
    });
  }

  /** Stores a fiber of that name and runs it. Settles as `f` does. */
  async run<A>(name: string, f: FiberFunction<A>): Promise<A> {
    const id = this.#runtime.time.id();
    const running = this.add({ id, name, kept: false });
    // Fibers that begin without an await between share a commit.
    await Promise.resolve();
    if (this.table.get(id) === undefined) {
      this.#end(running);
      throw new Error(`runFiber("${name}", …): the transaction that it was called in is undone`);
    }
    await this.#runtime.flush();
    return this.#execute(running, f);
  }

  /** Adds the fiber's row, in this turn. Follow it with `begin`. */
  add(row: Parameters<FiberTable["add"]>[0]): Running {
    const before = this.#recovery.here();
    const { metadata = before && (metadataOf(before) ?? undefined) } = row;
    this.table.add({ ...row, metadata, snapshot: before?.snapshot ?? null });
    if (before !== undefined) {
      this.table.recovered(before); // rule 3
      for (const kept of this.#owner.kept) kept.moved(before.id, row.id);
    }
    let settle = (): void => undefined;
    const settled = new Promise<void>((resolve) => (settle = resolve));
    const { id, name, kept } = row;
    const running = { id, name, kept, controller: new AbortController(), settled, settle };
    this.#running.set(id, running);
    if (!this.#alarm.isSet) this.#alarm.set(0);
    return running;
  }

  /** Runs `f` once this turn is stored, if the row is there then. Its failure is recorded there. */
  begin(running: Running, f: FiberFunction<unknown>): void {
    this.#runtime.afterCommit(() => {
      if (this.table.get(running.id) === undefined) return this.#end(running);
      // This turn does not wait for it.
      void this.#execute(running, f).catch(() => undefined);
    });
  }

  /** Resolves when it has ended. A fiber that nobody runs any more is recovered first. */
  async ended(id: string): Promise<void> {
    const running = this.#running.get(id);
    if (running === undefined) return this.#recovery.all();
    // Without this the commit would wait for the turn's end, and the turn waits for the fiber.
    await this.#runtime.flush();
    await running.settled;
  }

  /** Cancels a fiber. Its function may continue in memory, but no longer changes its row. */
  cancel(id: string, reason: string | undefined): boolean {
    const row = this.table.get(id);
    if (row === undefined || !row.kept || hasEnded(row.status)) return false;
    if (this.#owner.steps.failure(id) !== undefined) return false; // rule 4
    this.table.settle(id, "aborted", reason ?? null);
    const running = this.#running.get(id);
    running?.controller.abort(reason);
    running?.settle();
    this.#dropKept(id);
    return true;
  }

  /** Returns whether it was interrupted and now has this outcome. */
  resolve(id: string, result: FiberRecoveryResult): boolean {
    const row = this.table.get(id);
    if (row?.status !== "interrupted" || !row.kept) return false;
    this.table.resolve(id, {
      status: result.status,
      error: reasonOf(result),
      snapshot: result.snapshot,
      metadata: result.status === "completed" ? result.metadata : undefined,
    });
    return true;
  }

  /** Stashes for the fiber whose code runs. Throws outside of a fiber. */
  stash(data: unknown): void {
    const id = fiberOf(this.#runtime.currentCause());
    if (id === undefined) throw new Error("stash() called outside a fiber");
    this.#stash(id, data);
  }

  /** The alarm (rule 2): the next is set while anything is owed. */
  check(): void {
    const owed = this.table.owed();
    if (owed.length === 0) return;
    const idle = owed.filter(({ id }) => !this.#running.has(id));
    if (idle.length > 0) void this.#recovery.all();
    const fewest = owed.reduce((least, { failures }) => Math.min(least, failures), Infinity);
    this.#alarm.set(this.#running.size > 0 ? 0 : fewest);
  }

  /** For the agent's start, which waits for it for a limited time. */
  recoverFirst(): Promise<void> {
    return this.#recovery.first();
  }

  /** What it writes has the fiber as its cause, not an input. */
  #execute<A>(running: Running, f: FiberFunction<A>): Promise<A> {
    const { id, name } = running;
    const cause = { kind: "background", type: `${CAUSE_TYPE}${name}`, id } as const;
    return this.#runtime.inBackground(() => this.#runAndSettle(running, f), cause);
  }

  async #runAndSettle<A>(running: Running, f: FiberFunction<A>): Promise<A> {
    const runtime = this.#runtime;
    const { id, name, kept } = running;
    const { signal } = running.controller;
    const release = runtime.keepAlive();
    const startedMs = runtime.time.nowMs();
    const told = { fiberId: id, fiberName: name, managed: kept };
    const stash = (data: unknown): void => this.#stash(id, data);
    const { abandoned } = runtime;
    signal.addEventListener("abort", () => abandoned.fire(signal.reason), { once: true });
    const context: FiberContext = { id, signal, stash, snapshot: null };
    try {
      signal.throwIfAborted();
      this.table.begin(id);
      // Rule 1: the commit with its row may be undone. One that stands follows.
      if (kept && runtime.image.parts !== undefined) await runtime.flush();
      signal.throwIfAborted();
      runtime.emit("fiber:run:started", told);
      const result = await f(context);
      const failed = this.#owner.steps.failure(id);
      if (failed !== undefined) throw errorOfFailure(failed);
      this.#settle(running, "completed", null);
      const elapsedMs = runtime.time.nowMs() - startedMs;
      runtime.emit("fiber:run:completed", { ...told, elapsedMs });
      return result;
    } catch (error) {
      // The next owner finds it (rule 1).
      if (runtime.leaving.fired) throw error;
      const { status, why } = signal.aborted
        ? ({ status: "aborted", why: messageOf(error) } as const)
        : ({ status: "error", why: await this.#undo(id, error) } as const);
      this.#settle(running, status, why);
      const elapsedMs = runtime.time.nowMs() - startedMs;
      runtime.emit("fiber:run:failed", { ...told, error: why, elapsedMs });
      if (status === "error" && (kept || why !== messageOf(error)))
        runtime.log.warn("a fiber failed", { fiber: name, id, error: why });
      throw error;
    } finally {
      this.#end(running);
      release();
    }
  }

  #end(running: Running): void {
    if (this.#isCurrent(running)) this.#running.delete(running.id);
    running.settle();
  }

  /** Rule 4. Resolves to the failure, and what was undone. */
  #undo(id: string, error: unknown): Promise<string> {
    const { steps } = this.#owner;
    return steps.undo(steps.failure(id) ?? messageOf(error));
  }

  /** Rule 5. */
  #isCurrent(running: Running): boolean {
    return this.#running.get(running.id) === running;
  }

  #settle(running: Running, status: FiberStatus, error: string | null): void {
    if (!this.#isCurrent(running)) return;
    const { id, kept } = running;
    if (kept) this.table.settle(id, status, error);
    else this.table.remove(id);
    this.#dropKept(id);
    this.#restIfDone();
  }

  #restIfDone(): void {
    if (!this.table.isAnyOwed()) this.#alarm.clear();
  }

  #dropKept(id: string): void {
    for (const kept of this.#owner.kept) kept.ended(id);
  }

  #stash(id: string, data: unknown): void {
    const text = jsonText(data, "stash: the data");
    const { abandoned, leaving } = this.#runtime;
    if (abandoned.fired && !leaving.fired) return; // rule 5
    this.table.stash(id, text ?? null);
  }
}
