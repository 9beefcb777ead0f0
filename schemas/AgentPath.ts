/**
 * Where a sub-agent lives: it is an agent like any other, with a journal and a shard of its own, and its name tells its ancestors.
 *
 *     { class: "JobRunner", name: "/Supervisor/user-1/run-7" }          run-7 of Supervisor user-1
 *     { class: "Tool", name: "/Supervisor/user-1/JobRunner/run-7/web" } web of that run-7
 *
 * Part of the stored format. In each step's name `%` and `/` are written `%25` and `%2F`. No top-level agent has such a name.
 *
 * A name that comes from outside is a name and never a path: `topLevelId` checks it, and its type is what entrances pass on.
 * Otherwise a stranger could address a sub-agent past its parent's `onBeforeSubAgent`. The entrances:
 *
 * 1. A webhook's entity: body, path, header and constant, single or in a batch (`services/gateway/webhookInput`).
 * 2. A mail's agent id, whatever resolver returned it (`core/namespace/routeAgentEmail`), but for a signed reply.
 * 3. URLs, `getAgentByName`, `idFromName` and stubs (`core/namespace/AgentNamespace`), MCP's callback URL among them.
 * 4. A workflow's id (`core/workflow/WorkflowBinding`).
 *
 * Operators' commands take addresses of either kind. A sub-agent's URL is decoded step by step (`core/namespace/subAgentPaths`).
 */
import type * as Brand from "effect/Brand";
import { agentId, InvalidAddress, type AgentId } from "./Address.ts";

/** One agent's identity in a chain of them, root first. */
export interface AgentPathStep {
  /** As the module exports it. */
  readonly className: string;
  readonly name: string;
}

export const isSubAgentName = (name: string): boolean => name.startsWith("/");

/** The address of an agent that is no sub-agent: made by `topLevelId` alone. */
export type TopLevelId = AgentId & Brand.Brand<"TopLevelId">;

/** Checks a name from outside. Throws `InvalidAddress` as `agentId` does, and for a sub-agent's name. */
export function topLevelId(className: string, name: string): TopLevelId {
  const id = agentId(className, name);
  if (isSubAgentName(name))
    throw new InvalidAddress({
      message: `Agent name "${name}" begins with "/": that is how sub-agents are addressed. Reach one by its parent (this.subAgent, getSubAgentByName)`,
    });
  return id as TopLevelId;
}

/** From the root to the agent itself; the agent alone where it is no sub-agent. */
export function agentPath(id: AgentId): AgentPathStep[] {
  const parts = id.name.split("/");
  // An empty one before the first separator, a class and a name for each ancestor, and its own name.
  if (!isSubAgentName(id.name) || parts.length % 2 !== 0)
    return [{ className: id.class, name: id.name }];
  const path: AgentPathStep[] = [];
  for (let i = 1; i + 1 < parts.length; i += 2)
    path.push({ className: parts[i]!, name: unescaped(parts[i + 1]!) });
  path.push({ className: id.class, name: unescaped(parts.at(-1)!) });
  return path;
}

/** The address at the end of a path. Throws `InvalidAddress`, for an address that is too long too. */
export function idOfPath(path: ReadonlyArray<AgentPathStep>): AgentId {
  const { className, name } = path.at(-1)!;
  if (path.length === 1) return agentId(className, name);
  return agentId(className, beginOf(path.slice(0, -1)) + escaped(name));
}

/** Of the agent's own class and name, without its ancestors'. */
export const ownName = (id: AgentId): string =>
  isSubAgentName(id.name) ? agentPath(id).at(-1)!.name : id.name;

/** Is it a sub-agent of this one, or of one below it? */
export const isBelow = (id: AgentId, ancestor: AgentId): boolean =>
  isSubAgentName(id.name) && id.name.startsWith(beginOf(agentPath(ancestor)));

/** What the names of all below it begin with. */
const beginOf = (path: ReadonlyArray<AgentPathStep>): string =>
  path.map(({ className, name }) => `/${className}/${escaped(name)}`).join("") + "/";

const escaped = (name: string): string => name.replaceAll("%", "%25").replaceAll("/", "%2F");
const unescaped = (name: string): string => name.replaceAll("%2F", "/").replaceAll("%25", "%");
