/**
 * The part of `Agent` for sub-agents and the parent (`protocol.md` §5). Between `AgentStreams` and
 * `Agent` in the chain of classes; `core/subAgent/SubAgents` does the work.
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
import { AgentStreams } from "./AgentStreams.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";

/** The runtime's access to the sub-agents. */
export const FAMILY: unique symbol = Symbol("family");

/** See `Agent`. */
export class AgentSubAgents extends AgentStreams {
  declare readonly env: unknown;
  #family: SubAgents | undefined;

  get [FAMILY](): SubAgents {
    return (this.#family ??= new SubAgents(runtimeOf(this.ctx), this.env));
  }

  /** The sub-agents of this agent, each with its own state, SQL, schedules and sockets. */
  get dynamicAgents(): DynamicAgents {
    return this[FAMILY];
  }

  /** The ancestors, root first; empty for a top-level agent. */
  get parentPath(): ReadonlyArray<AgentPathStep> {
    return this[FAMILY].above;
  }

  /** The ancestors and this agent, root first: the argument of `buildAgentPath`. */
  get selfPath(): ReadonlyArray<AgentPathStep> {
    return this[FAMILY].path;
  }

  /**
   * A stub for the direct parent. Rejects for a top-level agent, and when the parent is of another
   * class.
   */
  async parentAgent<A extends AnyAgent>(agentClass: SubAgentClass<A>): Promise<AgentStub<A>> {
    return this[FAMILY].parent(agentClass);
  }

  /**
   * Hook: called before a request or a socket whose URL names a sub-agent reaches it. A Response
   * answers instead (a socket is closed with 4000 + its status), a Request is used instead, nothing
   * lets it pass. Default: all pass, and a new sub-agent is created.
   */
  onBeforeSubAgent(
    _request: Request,
    _child: { readonly className: string; readonly name: string },
  ): Request | Response | void | Promise<Request | Response | void> {}

  /** A stub for the sub-agent, which is created if needed: `dynamicAgents.get`. */
  subAgent<A extends AnyAgent>(
    agentClass: SubAgentClass<A>,
    name: string,
  ): Promise<SubAgentStub<A>> {
    return this.dynamicAgents.get(agentClass, name);
  }
  /** Discards a sub-agent in memory: `dynamicAgents.abort`. */
  abortSubAgent(agentClass: SubAgentClass, name: string, reason?: unknown): void {
    this.dynamicAgents.abort(agentClass, name, reason);
  }
  /** Destroys a sub-agent with all that it has stored: `dynamicAgents.delete`. */
  deleteSubAgent(agentClass: SubAgentClass, name: string): Promise<void> {
    return this.dynamicAgents.delete(agentClass, name);
  }
  /** Whether the sub-agent exists: `dynamicAgents.has`. */
  hasSubAgent(agentClass: SubAgentClass | string, name: string): boolean {
    return this.dynamicAgents.has(agentClass, name);
  }
  /** The sub-agents, of one class or of all: `dynamicAgents.list`. */
  listSubAgents(agentClass?: SubAgentClass | string): SubAgentInfo[] {
    return this.dynamicAgents.list(agentClass);
  }
}
