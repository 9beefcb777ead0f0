/**
 * `ctx`: the per-instance context that an agent is constructed with (`interface.md` §2.1), with the
 * members that apps written for the reference use: `id`, `storage`, `waitUntil`,
 * `blockConcurrencyWhile`, `abort`.
 */
import type { AgentRuntime } from "./AgentRuntime.ts";
import { AgentStorage } from "../database/AgentStorage.ts";
import { instanceId, type AgentInstanceId } from "../namespace/instanceId.ts";

/** The runtime behind a context. A context that was not made by the runtime is a `TypeError`. */
export const runtimeOf = (ctx: AgentContext): AgentRuntime => AgentContext.runtimeOf(ctx);

/** The context of one instance, as `this.ctx`. Made by the runtime only. */
export class AgentContext {
  readonly #runtime: AgentRuntime;
  #id: AgentInstanceId | undefined;
  #storage: AgentStorage | undefined;

  constructor(runtime: AgentRuntime) {
    this.#runtime = runtime;
  }

  /** `runtimeOf`. */
  static runtimeOf(ctx: AgentContext): AgentRuntime {
    const given: unknown = ctx;
    if (typeof given === "object" && given !== null && #runtime in given)
      return (given as AgentContext).#runtime;
    throw new TypeError(
      "An Agent is constructed by the runtime: get one with getAgentByName(), not with new",
    );
  }

  /** The agent's id: its name, and a text that is unique over all classes. */
  get id(): AgentInstanceId {
    return (this.#id ??= instanceId(this.#runtime.id));
  }

  /** The agent's SQLite database and its key-value calls. */
  get storage(): AgentStorage {
    return (this.#storage ??= new AgentStorage(this.#runtime));
  }

  /**
   * Keeps the agent in memory until `promise` settles. A rejection is logged and otherwise ignored.
   */
  waitUntil(promise: Promise<unknown>): void {
    runtimeOf(this).waitUntil(promise);
  }

  /** Runs `f` while every other input of this agent waits. Settles as `f` does. */
  blockConcurrencyWhile<A>(f: () => Promise<A>): Promise<A> {
    return runtimeOf(this).blockConcurrencyWhile(f);
  }

  /**
   * Discards the agent in memory with everything not yet stored. The next input starts it again.
   */
  abort(reason?: string): void {
    runtimeOf(this).abort(reason ?? "abort() was called");
  }
}
