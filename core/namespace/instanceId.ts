/** An agent's id as users hold it: in `ctx.id`, of a stub, of a binding. */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { ownName } from "../../schemas/AgentPath.ts";

/** Identifies an agent, as `ctx.id` and as a stub's `id`. */
export interface AgentInstanceId {
  /** The name that the agent is addressed by; of a sub-agent, its own name. */
  readonly name: string;
  /** A text that is unique over all classes: equal for equal ids. */
  toString(): string;
  /** Whether both identify the same agent. */
  equals(other: AgentInstanceId): boolean;
}

export function instanceId(id: AgentId): AgentInstanceId {
  const key = addressKey(id);
  return { name: ownName(id), toString: () => key, equals: (other) => other.toString() === key };
}
