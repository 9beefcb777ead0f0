/**
 * The address of a sub-agent: an agent like any other, with its own journal and shard, whose name
 * contains its ancestors.
 *
 *     { class: "JobRunner", name: "/Supervisor/user-1/run-7" }          run-7 of Supervisor user-1
 *     { class: "Tool", name: "/Supervisor/user-1/JobRunner/run-7/web" } web of that run-7
 *
 * Part of the stored format. In each step's name `%` and `/` are written `%25` and `%2F`. No
 * top-level agent has such a name. A name from outside is never a path: `topLevelId` checks it, and
 * the entrances pass its type on. Otherwise a stranger could reach a sub-agent without its parent's
 * `onBeforeSubAgent`. The entrances:
 *
 * 1. A webhook's entity: body, path, header and constant, single or in a batch
 *    (`services/gateway/webhookInput`).
 * 2. A mail's agent id from any resolver (`core/namespace/routeAgentEmail`), except for a signed
 *    reply.
 * 3. URLs, `getAgentByName`, `idFromName` and stubs (`core/namespace/AgentNamespace`), MCP's
 *    callback URL among them.
 * 4. A workflow's id (`core/workflow/WorkflowBinding`).
 *
 * Operators' commands accept both kinds of address. `core/namespace/subAgentPaths` decodes a
 * sub-agent's URL.
 */
import type * as Brand from "effect/Brand";
import { agentId, InvalidAddress, type AgentId } from "./Address.ts";

/** One agent's identity in a chain of them, root first. */
export interface AgentPathStep {
  /** The class's name, as the module exports it. */
  readonly className: string;
  /** The agent's own name, not escaped. */
  readonly name: string;
}

export const isSubAgentName = (name: string): boolean => name.startsWith("/");

/** The address of a top-level agent. Only `topLevelId` makes it. */
export type TopLevelId = AgentId & Brand.Brand<"TopLevelId">;

/** Checks a name from outside. Throws `InvalidAddress` as `agentId`, and for a sub-agent's name. */
export function topLevelId(className: string, name: string): TopLevelId {
  const id = agentId(className, name);
  if (isSubAgentName(name))
    throw new InvalidAddress({
      message: `Agent name "${name}" begins with "/": that is how sub-agents are addressed. Reach one by its parent (this.subAgent, getSubAgentByName)`,
    });
  return id as TopLevelId;
}

/** The path from the root to the agent itself; one step for a top-level agent. */
export function agentPath(id: AgentId): AgentPathStep[] {
  const parts = id.name.split("/");
  // Parts: an empty one before the first separator, class and name of each ancestor, the own name.
  if (!isSubAgentName(id.name) || parts.length % 2 !== 0)
    return [{ className: id.class, name: id.name }];
  const path: AgentPathStep[] = [];
  for (let i = 1; i + 1 < parts.length; i += 2)
    path.push({ className: parts[i]!, name: unescaped(parts[i + 1]!) });
  path.push({ className: id.class, name: unescaped(parts.at(-1)!) });
  return path;
}

/** The address at the end of a path. Throws `InvalidAddress`, also for one that is too long. */
export function idOfPath(path: ReadonlyArray<AgentPathStep>): AgentId {
  const { className, name } = path.at(-1)!;
  if (path.length === 1) return agentId(className, name);
  return agentId(className, beginOf(path.slice(0, -1)) + escaped(name));
}

/** The agent's own name, without its ancestors. */
export const ownName = (id: AgentId): string =>
  isSubAgentName(id.name) ? agentPath(id).at(-1)!.name : id.name;

/** Whether `id` is a sub-agent of `ancestor`, directly or indirectly. */
export const isBelow = (id: AgentId, ancestor: AgentId): boolean =>
  isSubAgentName(id.name) && id.name.startsWith(beginOf(agentPath(ancestor)));

/** The common start of the names of all sub-agents below a path. */
const beginOf = (path: ReadonlyArray<AgentPathStep>): string =>
  path.map(({ className, name }) => `/${className}/${escaped(name)}`).join("") + "/";

const escaped = (name: string): string => name.replaceAll("%", "%25").replaceAll("/", "%2F");
const unescaped = (name: string): string => name.replaceAll("%2F", "/").replaceAll("%25", "%");
