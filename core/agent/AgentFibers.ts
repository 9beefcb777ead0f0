/**
 * The part of `Agent` that runs work of its own across crashes: fibers (`protocol.md` §5). Between
 * `AgentMcp` and `AgentSubAgents` in the chain of classes; they are run by `core/fiber/Fibers`.
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

export class AgentFibers extends AgentMcp {
  #made: Fibers | undefined;

  get #fibers(): Fibers {
    return (this.#made ??= new Fibers(runtimeOf(this.ctx), {
      options: classOptions(this),
      onRecovered: (context) => this.onFiberRecovered(context),
    }));
  }

  /**
   * Runs `f`, known to be on: when its host ends in the middle, `onFiberRecovered` is called with
   * what it stashed, within `keepAliveIntervalMs` on the agent's next host. What was written before
   * is stored when `f` begins. Settles as `f` does.
   */
  async runFiber<A>(name: string, f: FiberFunction<A>): Promise<A> {
    return this.#fibers.run(assertName(name), f);
  }

  /**
   * Accepts work, durable with this turn, and runs it behind it. Calls with the same key or id get
   * the first one's record. It is kept, also when it has ended, until `deleteFibers`. What `f`
   * gives is dropped; what it throws is in the record.
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

  async inspectFiber(fiberId: string): Promise<FiberInspection | null> {
    return inspectionOf(this.#fibers.table.get(fiberId));
  }
  async inspectFiberByKey(idempotencyKey: string): Promise<FiberInspection | null> {
    return inspectionOf(this.#fibers.table.getByKey(idempotencyKey));
  }

  /** Of `startFiber`, newest first. */
  async listFibers(options: ListFibersOptions = {}): Promise<FiberInspection[]> {
    return this.#fibers.table.list(options).map(toInspection);
  }

  /** Aborts `context.signal`, and the record says `aborted` at once. Whether it had not ended. */
  async cancelFiber(fiberId: string, reason?: string): Promise<boolean> {
    return this.#fibers.cancel(fiberId, reason);
  }
  async cancelFiberByKey(idempotencyKey: string, reason?: string): Promise<boolean> {
    const row = this.#fibers.table.getByKey(idempotencyKey);
    return row !== undefined && this.#fibers.cancel(row.id, reason);
  }

  /** Says what became of one that was interrupted. Whether it was. */
  async resolveFiber(fiberId: string, result: FiberRecoveryResult): Promise<boolean> {
    return this.#fibers.resolve(fiberId, result);
  }

  /** Records of those that have ended; how many went. */
  async deleteFibers(options: DeleteFibersOptions = {}): Promise<number> {
    return this.#fibers.table.delete(options);
  }

  /**
   * Replaces what the fiber whose function this is called in has stashed. JSON; a value that is not
   * throws a `TypeError`. Throws outside of a fiber.
   */
  stash(data: unknown): void {
    this.#fibers.stash(data);
  }

  /** The alarm of fibers that are on (`Fibers`, rule 2). */
  _checkFibers(): void {
    this.#fibers.check();
  }

  // A hook, for subclasses.

  /**
   * A fiber of before was interrupted; called before `onStart`. Begin it again from
   * `context.snapshot`, or not. One of `startFiber` becomes what this gives, else stays
   * `interrupted`; when this throws it becomes `error`. One of `runFiber` is over when this
   * returns, and comes again when it throws, until it is as old as `fiberRecoveryMaxAgeMs`.
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

  /** The runtime's entry, before `onStart`. */
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
