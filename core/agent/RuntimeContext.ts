/**
 * The `AgentContext` that the runtime creates, and the access from it to the runtime. Users'
 * classes and their types therefore do not depend on the runtime.
 */
import { AgentStorage } from "../database/AgentStorage.ts";
import { instanceId, type AgentInstanceId } from "../namespace/instanceId.ts";
import type { AgentContext } from "./AgentContext.ts";
import type { AgentRuntime } from "./AgentRuntime.ts";

export class RuntimeContext implements AgentContext {
  readonly #runtime: AgentRuntime;
  #id: AgentInstanceId | undefined;
  #storage: AgentStorage | undefined;

  constructor(runtime: AgentRuntime) {
    this.#runtime = runtime;
  }

  static runtimeOf(ctx: AgentContext): AgentRuntime {
    const given: unknown = ctx;
    if (typeof given === "object" && given !== null && #runtime in given)
      return (given as RuntimeContext).#runtime;
    throw new TypeError(
      "An Agent is constructed by the runtime: get one with getAgentByName(), not with new; a constructor of its own passes on what it is given: super(ctx, env)",
    );
  }

  get id(): AgentInstanceId {
    return (this.#id ??= instanceId(this.#runtime.id));
  }
  get storage(): AgentStorage {
    return (this.#storage ??= new AgentStorage(this.#runtime));
  }
  waitUntil(promise: Promise<unknown>): void {
    this.#runtime.waitUntil(promise);
  }
  blockConcurrencyWhile<A>(f: () => Promise<A>): Promise<A> {
    return this.#runtime.blockConcurrencyWhile(f);
  }
  abort(reason?: string): void {
    this.#runtime.abort(reason ?? "abort() was called");
  }
}

/** The runtime behind a context. A context that was not made by the runtime is a `TypeError`. */
export const runtimeOf = (ctx: AgentContext): AgentRuntime => RuntimeContext.runtimeOf(ctx);
