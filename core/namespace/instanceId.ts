/** An agent's id as users hold it: in `ctx.id`, of a stub, of a binding. */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { ownName } from "../../schemas/AgentPath.ts";

export interface AgentInstanceId {
  readonly name: string;
  toString(): string;
  equals(other: AgentInstanceId): boolean;
}

export function instanceId(id: AgentId): AgentInstanceId {
  const key = addressKey(id);
  return { name: ownName(id), toString: () => key, equals: (other) => other.toString() === key };
}
