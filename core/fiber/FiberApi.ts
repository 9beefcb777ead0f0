/**
 * The fiber methods of `Agent` (`protocol.md` §5): reads their calls. `Fibers` runs fibers.
 */
import { checkOptions } from "../errors/checkOptions.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type {
  DeleteFibersOptions,
  FiberFunction,
  FiberInspection,
  FiberRecoveryResult,
  ListFibersOptions,
  StartFiberOptions,
  StartFiberResult,
} from "./Fiber.ts";
import type { Fibers } from "./Fibers.ts";
import { hasEnded, toInspection, type FiberRow } from "./FiberTable.ts";

const OPTIONS = {
  start: new Set(["fiberId", "idempotencyKey", "metadata", "waitForCompletion"]),
  list: new Set(["status", "name", "limit"]),
  delete: new Set(["status", "settledBefore", "limit"]),
};

/** Its public methods are those of `Agent`, which documents them. */
export class FiberApi {
  readonly #fibers: Fibers;
  readonly #time: AgentWork["time"];

  constructor(fibers: Fibers, time: AgentWork["time"]) {
    this.#fibers = fibers;
    this.#time = time;
  }

  async run<A>(name: string, f: FiberFunction<A>): Promise<A> {
    assertCall("runFiber", name, f);
    return this.#fibers.run(name, f);
  }

  async start(
    name: string,
    f: FiberFunction<unknown>,
    options: StartFiberOptions,
  ): Promise<StartFiberResult> {
    assertCall("startFiber", name, f);
    checkOptions(`startFiber("${name}", …)`, options, OPTIONS.start);
    const { fiberId, idempotencyKey, metadata, waitForCompletion = false } = options;
    const fibers = this.#fibers;
    const before = this.#begunBefore(fiberId, idempotencyKey);
    const id = before?.id ?? fiberId ?? this.#time.id();
    if (before === undefined) {
      const running = fibers.add({ id, name, kept: true, key: idempotencyKey, metadata });
      fibers.begin(running, f);
    }
    if (waitForCompletion && !hasEnded(before?.status ?? "pending")) await fibers.ended(id);
    const row = fibers.table.get(id);
    if (row === undefined) throw new Error(`Fiber ${id} no longer exists`);
    return { ...toInspection(row), accepted: before === undefined };
  }

  inspect(fiberId: string): FiberInspection | null {
    return inspectionOf(this.#fibers.table.get(fiberId));
  }
  inspectByKey(idempotencyKey: string): FiberInspection | null {
    return inspectionOf(this.#fibers.table.getByKey(idempotencyKey));
  }
  list(options: ListFibersOptions): FiberInspection[] {
    checkOptions("listFibers", options, OPTIONS.list);
    return this.#fibers.table.list(options).map(toInspection);
  }

  cancel(fiberId: string, reason?: string): boolean {
    return this.#fibers.cancel(fiberId, reason);
  }
  cancelByKey(idempotencyKey: string, reason?: string): boolean {
    const row = this.#fibers.table.getByKey(idempotencyKey);
    return row !== undefined && this.#fibers.cancel(row.id, reason);
  }

  resolve(fiberId: string, result: FiberRecoveryResult): boolean {
    return this.#fibers.resolve(fiberId, result);
  }
  delete(options: DeleteFibersOptions): number {
    checkOptions("deleteFibers", options, OPTIONS.delete);
    return this.#fibers.table.delete(options);
  }
  stash(data: unknown): void {
    this.#fibers.stash(data);
  }

  /** The alarm of running fibers (`Fibers`, rule 2). */
  check(): void {
    this.#fibers.check();
  }
  /** Called before `onStart`: waits for interrupted fibers, up to `fiberRecoveryScanDeadlineMs`. */
  recoverFirst(): Promise<void> {
    return this.#fibers.recoverFirst();
  }

  #begunBefore(id: string | undefined, key: string | undefined): FiberRow | undefined {
    const { table } = this.#fibers;
    for (const [option, text] of Object.entries({ fiberId: id, idempotencyKey: key })) {
      if ((text ?? undefined) === undefined) continue;
      if (typeof text !== "string")
        throw new TypeError(`startFiber: ${option} must be text, not ${typeof text}`);
      if (text.trim() === "") throw new Error(`${option} must not be blank`);
      // SQLite would store another text.
      if (!text.isWellFormed())
        throw new TypeError(`${option} must not contain an unpaired surrogate`);
    }
    const byId = id === undefined ? undefined : table.get(id);
    const byKey = key === undefined ? undefined : table.getByKey(key);
    if (byKey !== undefined && id !== undefined && byKey.id !== id)
      throw new Error("fiberId and idempotencyKey refer to different fibers");
    return byId ?? byKey;
  }
}

function assertCall(method: "runFiber" | "startFiber", name: unknown, f: unknown): void {
  if (typeof name !== "string" || name === "")
    throw new TypeError(`A fiber needs a name: ${method}(name, async (context) => …)`);
  if (typeof f !== "function")
    throw new TypeError(`${method}("${name}", f): the second argument must be a function`);
}

const inspectionOf = (row: FiberRow | undefined): FiberInspection | null =>
  row === undefined || !row.kept ? null : toInspection(row);
