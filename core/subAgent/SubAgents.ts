/**
 * An agent's place among its ancestors and its sub-agents (`protocol.md` §5; the reference's
 * `dynamicAgents`).
 *
 * 1. A sub-agent is an agent of its own: journal, state, SQL, sockets, schedules and all. Its
 *    address (`schemas/AgentPath`) and an entry in its parent's list make it a sub-agent.
 * 2. Its parent lists it before anything reaches it, whether code asks for it or a URL names it (a
 *    readonly socket's URL reaches only what is listed). Calls and answers wait for what was written
 *    before them, so the row is stored first.
 * 3. An agent that ends first ends its sub-agents, and each of those its own. After a crash in
 *    between, what remains is still listed, and the next attempt ends it.
 * 4. A sub-agent that destroys itself notifies its parent afterwards. If that is lost, the parent
 *    lists a sub-agent that has nothing, and its next use starts it anew.
 *
 * Made when first used, by `AgentApis`.
 */
import {
  addressKey,
  camelCaseToKebabCase,
  InvalidAddress,
  type AgentId,
} from "../../schemas/Address.ts";
import { agentPath, idOfPath, type AgentPathStep } from "../../schemas/AgentPath.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import { AgentNamespace } from "../namespace/AgentNamespace.ts";
import { makeStub } from "../namespace/makeStub.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import { messageOf } from "../errors/thrown.ts";
import { decodeError } from "../call/remoteError.ts";
import { SUB_PREFIX } from "../namespace/subAgentPaths.ts";
import { SubAgentTable, type SubAgentInfo } from "./SubAgentTable.ts";

/** How long a sub-agent may take to start, or to end with all of its own. */
const DEADLINE_MS = 60_000;

/** Any agent, of any environment, state and props: the members that tell it from other objects. */
export interface AnyAgent {
  readonly name: string;
  onStart(props?: never): void | Promise<void>;
  onRequest(request: Request): Response | Promise<Response>;
  schedule(...args: never): unknown;
  destroy(): Promise<void>;
}
/** A class of agents, as the module exports it. */
export type SubAgentClass<A extends AnyAgent = AnyAgent> = abstract new (...args: never[]) => A;
/** A stub of a sub-agent. */
export type SubAgentStub<A> = AgentStub<A>;

/** `this.dynamicAgents`. */
export interface DynamicAgents {
  /**
   * The sub-agent of this class and name, started: a new one the first time. Rejects with what its
   * `onStart` throws, and where the class is not exported under its own name.
   */
  get<A extends AnyAgent>(agentClass: SubAgentClass<A>, name: string): Promise<SubAgentStub<A>>;
  /** Discards it and all below it in memory, unstored changes with it. The next use restarts it. */
  abort(agentClass: SubAgentClass, name: string, reason?: unknown): void;
  /**
   * Destroys it, and all below it: state, SQL, schedules, sockets (1001). Does nothing if there is
   * none.
   */
  delete(agentClass: SubAgentClass, name: string): Promise<void>;
  /** Whether it was asked for, and not deleted since. */
  has(agentClass: SubAgentClass | string, name: string): boolean;
  /** All, or those of a class, in the order in which they were first asked for. */
  list(agentClass?: SubAgentClass | string): SubAgentInfo[];
}

type SubAgentRuntime = Pick<AgentWork, "id" | "log" | "query" | "time">;

export class SubAgents implements DynamicAgents {
  /** Root first, the agent itself last. */
  readonly path: ReadonlyArray<AgentPathStep>;
  readonly #runtime: SubAgentRuntime;
  readonly #env: unknown;
  readonly #table: SubAgentTable;
  #ending: Promise<void> | undefined;
  /** Keys of those that are being deleted, and that nobody has asked for since. */
  readonly #deleting = new Set<string>();

  /** `table`: where it lists them. */
  constructor(runtime: SubAgentRuntime, env: unknown, table = new SubAgentTable(runtime)) {
    this.#runtime = runtime;
    this.#env = env;
    this.#table = table;
    this.path = agentPath(runtime.id);
  }

  async get<A extends AnyAgent>(
    agentClass: SubAgentClass<A>,
    name: string,
  ): Promise<SubAgentStub<A>> {
    const className = nameOf(agentClass);
    const id = this.#checked(className, name);
    const isNew = this.#list(className, name);
    try {
      await this.#ask(id, { kind: "state" });
    } catch (error) {
      if (isNew) this.forget(className, name);
      throw error;
    }
    return makeStub<A>(this.#calls(className), id);
  }

  abort(
    agentClass: SubAgentClass | string,
    name: string,
    reason: unknown = "aborted by its parent",
  ): void {
    const className = nameOf(agentClass);
    const id = this.#idOf(className, name);
    this.#ask(id, { kind: "abort", reason: messageOf(reason) }).catch((error: unknown) =>
      this.#runtime.log.warn("a sub-agent could not be aborted", {
        subAgent: `${className} ${id.name}`,
        error: messageOf(error),
      }),
    );
  }

  async delete(agentClass: SubAgentClass | string, name: string): Promise<void> {
    const className = nameOf(agentClass);
    if (!this.#table.has(className, name)) return;
    const id = this.#idOf(className, name);
    const key = addressKey(id);
    this.#deleting.add(key);
    try {
      await this.#ask(id, { kind: "end" });
    } catch (error) {
      // Its code can't run, or is gone: it ends without running it. Those below it stay.
      this.#runtime.log.warn(
        "a sub-agent was deleted without its code; sub-agents below it remain",
        { subAgent: `${className} ${id.name}`, error: messageOf(error) },
      );
      await this.#ask(id, { kind: "erase" });
    }
    if (this.#deleting.delete(key)) this.#table.remove(className, name);
  }

  has(agentClass: SubAgentClass | string, name: string): boolean {
    return this.#table.has(nameOf(agentClass), name);
  }

  list(agentClass?: SubAgentClass | string): SubAgentInfo[] {
    return this.#table.list(agentClass === undefined ? undefined : nameOf(agentClass));
  }

  /** Class names that URLs may name; a binding may have another name, which is none of a class. */
  get knownClasses(): string[] {
    const bound = Object.values((this.#env ?? {}) as Record<string, unknown>);
    const names = bound.flatMap((value) =>
      value instanceof AgentNamespace ? value.className : [],
    );
    return [...new Set(names)].filter((name) => !isReserved(name));
  }

  /** Its ancestors, root first. */
  get above(): ReadonlyArray<AgentPathStep> {
    return this.path.slice(0, -1);
  }

  /** Whether it is listed, or one more may be. */
  hasRoomFor(className: string, name: string, max: number): boolean {
    return this.#table.has(className, name) || this.#table.count() < max;
  }

  /** Lists it (rule 2) and returns its address. Throws if that is impossible. */
  add(className: string, name: string): AgentId {
    const id = this.#checked(className, name);
    this.#list(className, name);
    return id;
  }

  /** Returns false if it was listed. Stays listed if it is being deleted. */
  #list(className: string, name: string): boolean {
    this.#deleting.delete(addressKey(this.#idOf(className, name)));
    return this.#table.add(className, name);
  }

  #checked(className: string, name: string): AgentId {
    if (isReserved(className))
      throw new Error(
        `Sub-agent class name "${className}" kebab-cases to "sub", which collides with the reserved URL separator: rename the class`,
      );
    this.#calls(className);
    if (typeof name !== "string" || name === "")
      throw new InvalidAddress({ message: "Sub-agent name is empty, or not a string" });
    if (name.includes("\0"))
      throw new InvalidAddress({
        message: "Sub-agent name contains null character (\\0), which is reserved",
      });
    return this.#idOf(className, name);
  }

  /** Rule 4, on the parent. */
  forget(className: string, name: string): void {
    this.#table.remove(className, name);
  }

  /** A handle on the direct parent. Throws where there is none, or it is of another class. */
  parent<A extends AnyAgent>(agentClass: SubAgentClass<A>): AgentStub<A> {
    const parent = this.above.at(-1);
    const asked = nameOf(agentClass);
    if (parent === undefined)
      throw new Error(
        `parentAgent(): ${this.#runtime.id.class} is not a sub-agent: only agents that this.subAgent() returned have a parent`,
      );
    if (asked !== parent.className)
      throw new Error(
        `parentAgent(${asked}): the parent of this sub-agent is a "${parent.className}", not a "${asked}"`,
      );
    return makeStub<A>(this.#calls(asked), idOfPath(this.above));
  }

  /**
   * Rule 3, then `destroy`, then rule 4 unless the parent does it (`isDeleted`). Once, unless it
   * fails.
   */
  end(destroy: () => Promise<void>, options: { readonly isDeleted?: boolean } = {}): Promise<void> {
    return (this.#ending ??= this.#end(destroy, options).catch((error: unknown) => {
      this.#ending = undefined;
      throw error;
    }));
  }

  async #end(destroy: () => Promise<void>, { isDeleted = false }): Promise<void> {
    for (const { className, name } of this.#table.list()) await this.delete(className, name);
    await destroy();
    if (!isDeleted) await this.#tellParent();
  }

  abortAll(reason: string): void {
    for (const { className, name } of this.#table.list()) this.abort(className, name, reason);
  }

  async #tellParent(): Promise<void> {
    if (this.above.length === 0) return;
    try {
      await this.#ask(idOfPath(this.above), { kind: "child", op: "forget", ...this.path.at(-1)! });
    } catch (error) {
      this.#runtime.log.warn("a parent could not be notified that its sub-agent is gone", {
        error: messageOf(error),
      });
    }
  }

  #idOf(className: string, name: string): AgentId {
    return idOfPath([...this.path, { className, name }]);
  }

  /** Repeating one of these has no further effect. */
  async #ask(id: AgentId, call: Call): Promise<void> {
    const how = { deadlineMs: DEADLINE_MS, repeatable: true };
    const { reply } = await this.#calls(this.#runtime.id.class)().call(id, call, how);
    if (reply.kind === "error") throw decodeError(reply);
  }

  #calls(className: string) {
    const namespace = (this.#env as Record<string, unknown> | undefined)?.[className];
    if (!(namespace instanceof AgentNamespace))
      throw new Error(
        `Sub-agent class "${className}" not found among the module's exports. Export the class under its own name (a bundler that renames classes must keep them: keepNames)`,
      );
    return AgentNamespace.callsOf(namespace);
  }
}

const isReserved = (className: string): boolean => camelCaseToKebabCase(className) === SUB_PREFIX;

/** The class has the name under which the module exports it. */
export function nameOf(agentClass: SubAgentClass | string): string {
  const name: unknown = typeof agentClass === "string" ? agentClass : agentClass?.name;
  if (typeof name === "string" && name !== "") return name;
  throw new TypeError(
    `The class of a sub-agent must be exported by the module: ${String(agentClass)} has no name`,
  );
}
