/**
 * `ctx`: the per-instance context that an agent is constructed with (`interface.md` §2.1), with the
 * members that apps written for the reference use. `RuntimeContext` implements it.
 */
import type { AgentStorage } from "../database/AgentStorage.ts";
import type { AgentInstanceId } from "../namespace/instanceId.ts";

/** The context of one instance, as `this.ctx`. Made by the runtime only. */
export interface AgentContext {
  /** The agent's id: its name, and a text that is unique over all classes. */
  readonly id: AgentInstanceId;
  /** The agent's SQLite database and its key-value calls. */
  readonly storage: AgentStorage;
  /** Keeps the agent in memory until `promise` settles. A rejection is logged and ignored. */
  waitUntil(promise: Promise<unknown>): void;
  /** Runs `f` while every other input of this agent waits. Settles as `f` does. */
  blockConcurrencyWhile<A>(f: () => Promise<A>): Promise<A>;
  /** Discards the agent in memory with all that is not stored. The next input starts it again. */
  abort(reason?: string): void;
}

/** The context in the platform's own types, `DurableObjectState`, as constructors declare it. */
export interface PlatformContext {
  /** As `AgentContext.id`. */
  readonly id: object;
  /** As `AgentContext.storage`. */
  readonly storage: object;
  /** As `AgentContext.waitUntil`. */
  waitUntil(promise: Promise<unknown>): void;
}
