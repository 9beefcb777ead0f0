/** An agent's id as users see it: `ctx.id`, a stub's `id`, and a binding's ids. */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { ownName } from "../../schemas/AgentPath.ts";

/** Identifies an agent. */
export interface AgentInstanceId {
  /** The name that the agent is addressed by. For a sub-agent, its own name. */
  readonly name: string;
  /** A text that is unique over all classes, and equal for equal ids. */
  toString(): string;
  /** Whether both identify the same agent. */
  equals(other: AgentInstanceId): boolean;
}

export function instanceId(id: AgentId): AgentInstanceId {
  const key = addressKey(id);
  return { name: ownName(id), toString: () => key, equals: (other) => other.toString() === key };
}
