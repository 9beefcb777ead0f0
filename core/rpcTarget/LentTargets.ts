/**
 * The `RpcTarget`s of an agent that others hold stubs of (`core/namespace/targetStub`), by keys of
 * their own. While one is lent, its agent stays in memory.
 *
 * 1. One is lent until its holder disposes of it, or the turn that received it ends: that of the
 *    caller for a result, that of the callee for an argument.
 * 2. None is lent for longer than `IDLE_MS` without a call: a holder may be gone without a word.
 * 3. All end with the agent's time in memory: a call that comes later fails, and says so.
 *
 * Part of `Keeping`.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { TargetReference } from "../../schemas/bus/TargetCall.ts";
import { SparseMap } from "../collections/sparse.ts";
import type { TimeShape } from "../time/Time.ts";
import type { RpcTarget } from "./RpcTarget.ts";

/** As long as a stub's call may take. Few are held for longer between two calls. */
const IDLE_MS = 60_000;
/** More than a turn of an app holds; a loop that never disposes is noticed before memory ends. */
const LENT_MAX = 1_000;

/** The agent whose objects they are. */
export interface LendingAgent {
  readonly id: AgentId;
  readonly time: Pick<TimeShape, "id" | "after">;
  keepAlive(): () => void;
}

interface Lent {
  readonly target: RpcTarget;
  readonly release: () => void;
  /** Calls of it that run. */
  calls: number;
  /** Cancels its timer. */
  idle: () => void;
}

export class LentTargets {
  readonly #agent: LendingAgent;
  readonly #lent = new SparseMap<string, Lent>();

  constructor(agent: LendingAgent) {
    this.#agent = agent;
  }

  /** Until `end`, or rule 2. Throws `RangeError` for one too many. */
  lend(target: RpcTarget): TargetReference {
    const { id, time } = this.#agent;
    if (this.#lent.size >= LENT_MAX)
      throw new RangeError(
        `${id.class}/${id.name} has ${LENT_MAX} RpcTargets in use by others: dispose of those that are no longer needed (using, or Symbol.dispose)`,
      );
    const key = time.id();
    const release = this.#agent.keepAlive();
    this.#lent.set(key, { target, release, calls: 0, idle: () => undefined });
    this.#watch(key);
    return [id.class, id.name, key];
  }

  /** Runs a call of a target. Settles as `f` does; rejects for a target that is not lent. */
  async use<A>(key: string, f: (target: RpcTarget) => A | Promise<A>): Promise<A> {
    const lent = this.#lent.get(key);
    if (lent === undefined) {
      const { id } = this.#agent;
      throw new Error(
        `The RpcTarget of ${id.class}/${id.name} is gone: it was disposed of, the turn that received it has ended, nothing called it for ${IDLE_MS / 1000} s, or its agent has left memory. Request it again`,
      );
    }
    lent.idle();
    lent.calls++;
    try {
      return await f(lent.target);
    } finally {
      if (--lent.calls === 0) this.#watch(key);
    }
  }

  /** Does nothing for one that is not lent. */
  end(key: string): void {
    const lent = this.#lent.get(key);
    if (lent === undefined) return;
    this.#lent.delete(key);
    lent.idle();
    lent.release();
  }

  /** Rule 3. */
  close(): void {
    for (const key of this.#lent.keys()) this.end(key);
  }

  #watch(key: string): void {
    const lent = this.#lent.get(key);
    if (lent !== undefined) lent.idle = this.#agent.time.after(IDLE_MS, () => this.end(key));
  }
}
