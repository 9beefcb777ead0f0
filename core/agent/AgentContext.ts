/**
 * `ctx`: the per-instance context that an agent is constructed with (`interface.md` §2.1), with the
 * members that apps written for the reference use: `id`, `storage`, `waitUntil`,
 * `blockConcurrencyWhile`, `abort`.
 */
import type { AgentRuntime } from "./AgentRuntime.ts";
import { AgentStorage } from "./AgentStorage.ts";

const runtimes = new WeakMap<AgentContext, AgentRuntime>();

/** The runtime behind a context. A context that was not made by the runtime is a `TypeError`. */
export function runtimeOf(ctx: AgentContext): AgentRuntime {
  const runtime = runtimes.get(ctx);
  if (runtime === undefined)
    throw new TypeError(
      "An Agent is constructed by the runtime: get one with getAgentByName(), not with new",
    );
  return runtime;
}

export interface AgentInstanceId {
  readonly name: string;
  toString(): string;
  equals(other: AgentInstanceId): boolean;
}

export class AgentContext {
  readonly id: AgentInstanceId;
  readonly storage: AgentStorage;

  constructor(runtime: AgentRuntime) {
    runtimes.set(this, runtime);
    const { class: className, name } = runtime.id;
    const key = `${className}/${name}`;
    this.id = { name, toString: () => key, equals: (other) => other.toString() === key };
    this.storage = new AgentStorage(runtime);
  }

  /** Keeps the agent in memory until `promise` settles. Its rejection is logged, nothing else. */
  waitUntil(promise: Promise<unknown>): void {
    runtimeOf(this).waitUntil(promise);
  }

  /** Runs `f` while every other input of this agent waits. Rejects as `f` does. */
  blockConcurrencyWhile<A>(f: () => Promise<A>): Promise<A> {
    return runtimeOf(this).blockConcurrencyWhile(f);
  }

  /** Throws the agent out of memory; what was not yet stored is lost. The next input starts it afresh. */
  abort(reason?: string): void {
    runtimeOf(this).abort(reason ?? "abort() was called");
  }
}
