/**
 * The part of `Agent` that runs fibers: work that survives crashes (`protocol.md` §5). Between
 * `AgentMcp` and `AgentStreams` in the chain of classes; `core/fiber/Fibers` runs them.
 */
import {
  RECOVER_FIBERS,
  type DeleteFibersOptions,
  type FiberFunction,
  type FiberInspection,
  type FiberRecoveryContext,
  type FiberRecoveryResult,
  type ListFibersOptions,
  type StartFiberOptions,
  type StartFiberResult,
} from "../fiber/Fiber.ts";
import { Fibers } from "../fiber/Fibers.ts";
import { hasEnded, toInspection, type FiberRow } from "../fiber/FiberTable.ts";
import { runtimeOf } from "./AgentContext.ts";
import { AgentMcp } from "./AgentMcp.ts";
import { classOptions } from "./AgentStaticOptions.ts";

/** See `Agent`. */
export class AgentFibers extends AgentMcp {
  #made: Fibers | undefined;

  get #fibers(): Fibers {
    return (this.#made ??= new Fibers(runtimeOf(this.ctx), {
      options: classOptions(this),
      onRecovered: (context) => this.onFiberRecovered(context),
    }));
  }

  /**
   * Runs `f` as a recorded fiber. When its host ends meanwhile, the agent's next host calls
   * `onFiberRecovered` with its last stash, within `keepAliveIntervalMs`. Writes made before are
   * stored when `f` begins. Settles as `f` does. Rejects with `TypeError` without a name.
   */
  async runFiber<A>(name: string, f: FiberFunction<A>): Promise<A> {
    return this.#fibers.run(assertName(name), f);
  }

  /**
   * Accepts a fiber, durable with this turn, and runs it after the turn. A call with the key or id
   * of an earlier one resolves to that one's record. The record is kept after the fiber has ended,
   * until `deleteFibers`. The result of `f` is dropped; its error is in the record. Rejects with
   * `TypeError` without a name, and with an `Error` for a blank id or key, or for an id and a key
   * of different fibers.
   */
  async startFiber(
    name: string,
    f: FiberFunction<unknown>,
    options: StartFiberOptions = {},
  ): Promise<StartFiberResult> {
    const { fiberId, idempotencyKey, metadata, waitForCompletion = false } = options;
    const fibers = this.#fibers;
    const before = this.#begunBefore(fiberId, idempotencyKey);
    const id = before?.id ?? fiberId ?? runtimeOf(this.ctx).time.id();
    if (before === undefined) {
      fibers.add({ id, name: assertName(name), kept: true, key: idempotencyKey, metadata });
      fibers.begin(id, name, f);
    }
    if (waitForCompletion && !hasEnded(before?.status ?? "pending")) await fibers.ended(id);
    const row = fibers.table.get(id);
    if (row === undefined) throw new Error(`Fiber ${id} no longer exists`);
    return { ...toInspection(row), accepted: before === undefined };
  }

  /** The record of a fiber of `startFiber`; null without one. */
  async inspectFiber(fiberId: string): Promise<FiberInspection | null> {
    return inspectionOf(this.#fibers.table.get(fiberId));
  }
  /** The record of the fiber with this idempotency key; null without one. */
  async inspectFiberByKey(idempotencyKey: string): Promise<FiberInspection | null> {
    return inspectionOf(this.#fibers.table.getByKey(idempotencyKey));
  }

  /** Records of fibers of `startFiber`, newest first. */
  async listFibers(options: ListFibersOptions = {}): Promise<FiberInspection[]> {
    return this.#fibers.table.list(options).map(toInspection);
  }

  /**
   * Aborts a fiber's `context.signal`; its record becomes `aborted` at once. Resolves to false when
   * it had ended.
   */
  async cancelFiber(fiberId: string, reason?: string): Promise<boolean> {
    return this.#fibers.cancel(fiberId, reason);
  }
  /** `cancelFiber`, by idempotency key. Resolves to false without such a fiber too. */
  async cancelFiberByKey(idempotencyKey: string, reason?: string): Promise<boolean> {
    const row = this.#fibers.table.getByKey(idempotencyKey);
    return row !== undefined && this.#fibers.cancel(row.id, reason);
  }

  /** Sets the outcome of an interrupted fiber. Resolves to whether the fiber was interrupted. */
  async resolveFiber(fiberId: string, result: FiberRecoveryResult): Promise<boolean> {
    return this.#fibers.resolve(fiberId, result);
  }

  /** Deletes records of ended fibers. Resolves to their number. */
  async deleteFibers(options: DeleteFibersOptions = {}): Promise<number> {
    return this.#fibers.table.delete(options);
  }

  /**
   * Replaces the stash of the fiber whose function makes this call. Throws `TypeError` for a value
   * that is not JSON, and an `Error` outside of a fiber.
   */
  stash(data: unknown): void {
    this.#fibers.stash(data);
  }

  /** For the runtime: the alarm of running fibers (`Fibers`, rule 2). */
  _checkFibers(): void {
    this.#fibers.check();
  }

  // A hook, for subclasses.

  /**
   * Hook: a fiber was interrupted; called before `onStart`. It can start again from
   * `context.snapshot`. A fiber of `startFiber` takes the returned status, stays `interrupted`
   * without one, and becomes `error` when this throws. A fiber of `runFiber` is done when this
   * returns; when this throws, it is called again until the fiber is as old as
   * `fiberRecoveryMaxAgeMs`. Default: logs a warning.
   */
  onFiberRecovered({
    name,
    id,
  }: FiberRecoveryContext): Promise<void | FiberRecoveryResult> | void | FiberRecoveryResult {
    runtimeOf(this.ctx).log.warn(
      "a fiber was interrupted and nobody looks after it; override onFiberRecovered to do so",
      { fiber: name, id },
    );
  }

  /** For the runtime, before `onStart`. */
  [RECOVER_FIBERS](): Promise<void> {
    return this.#fibers.recoverFirst();
  }

  #begunBefore(id: string | undefined, key: string | undefined): FiberRow | undefined {
    const { table } = this.#fibers;
    if (id?.trim() === "") throw new Error("fiberId must not be blank");
    if (key?.trim() === "") throw new Error("idempotencyKey must not be blank");
    const byId = id === undefined ? undefined : table.get(id);
    const byKey = key === undefined ? undefined : table.getByKey(key);
    if (byKey !== undefined && id !== undefined && byKey.id !== id)
      throw new Error("fiberId and idempotencyKey refer to different fibers");
    return byId ?? byKey;
  }
}

function assertName(name: unknown): string {
  if (typeof name === "string" && name !== "") return name;
  throw new TypeError("A fiber is named: runFiber(name, async (context) => …)");
}

const inspectionOf = (row: FiberRow | undefined): FiberInspection | null =>
  row === undefined || !row.kept ? null : toInspection(row);
