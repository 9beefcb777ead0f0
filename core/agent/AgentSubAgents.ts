/**
 * The part of `Agent` that has a family: its sub-agents, its parent (`protocol.md` §5). Between
 * `AgentFibers` and `Agent` in the chain of classes; what it does is in `core/subAgent/SubAgents`.
 */
import type { AgentPathStep } from "../../schemas/AgentPath.ts";
import {
  SubAgents,
  type AnyAgent,
  type DynamicAgents,
  type SubAgentClass,
  type SubAgentStub,
} from "../subAgent/SubAgents.ts";
import type { SubAgentInfo } from "../subAgent/SubAgentTable.ts";
import { runtimeOf } from "./AgentContext.ts";
import { AgentFibers } from "./AgentFibers.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";

/** The runtime's door to it. */
export const FAMILY: unique symbol = Symbol("family");

export class AgentSubAgents extends AgentFibers {
  declare readonly env: unknown;
  #family: SubAgents | undefined;

  get [FAMILY](): SubAgents {
    return (this.#family ??= new SubAgents(runtimeOf(this.ctx), this.env));
  }

  /** Agents below this one, each with a state, SQL, schedules and sockets of its own. */
  get dynamicAgents(): DynamicAgents {
    return this[FAMILY];
  }

  /** Its ancestors, root first; empty for an agent that is no sub-agent. */
  get parentPath(): ReadonlyArray<AgentPathStep> {
    return this[FAMILY].above;
  }

  /** The same with itself at the end: what `buildAgentPath` takes. */
  get selfPath(): ReadonlyArray<AgentPathStep> {
    return this[FAMILY].path;
  }

  /**
   * A handle on the direct parent. Rejects where this is no sub-agent, or its parent is of another
   * class.
   */
  async parentAgent<A extends AnyAgent>(agentClass: SubAgentClass<A>): Promise<AgentStub<A>> {
    return this[FAMILY].parent(agentClass);
  }

  /**
   * A hook: before a request or a socket whose URL names a sub-agent goes to it. A Response answers
   * instead (a socket is closed with 4000 + its status), a Request is used instead, nothing lets it
   * pass. Default: all pass, and a new one is made.
   */
  onBeforeSubAgent(
    _request: Request,
    _child: { readonly className: string; readonly name: string },
  ): Request | Response | void | Promise<Request | Response | void> {}

  /** `dynamicAgents.get`. */
  subAgent<A extends AnyAgent>(
    agentClass: SubAgentClass<A>,
    name: string,
  ): Promise<SubAgentStub<A>> {
    return this.dynamicAgents.get(agentClass, name);
  }
  /** `dynamicAgents.abort`. */
  abortSubAgent(agentClass: SubAgentClass, name: string, reason?: unknown): void {
    this.dynamicAgents.abort(agentClass, name, reason);
  }
  /** `dynamicAgents.delete`. */
  deleteSubAgent(agentClass: SubAgentClass, name: string): Promise<void> {
    return this.dynamicAgents.delete(agentClass, name);
  }
  /** `dynamicAgents.has`. */
  hasSubAgent(agentClass: SubAgentClass | string, name: string): boolean {
    return this.dynamicAgents.has(agentClass, name);
  }
  /** `dynamicAgents.list`. */
  listSubAgents(agentClass?: SubAgentClass | string): SubAgentInfo[] {
    return this.dynamicAgents.list(agentClass);
  }
}
