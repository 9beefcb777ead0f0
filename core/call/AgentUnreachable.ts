/** The errors of calls that no host has answered. `CallClient` rejects with them. */
import * as Data from "effect/Data";

/** No host answered for the agent within the deadline. Retry later. */
export class AgentUnreachable extends Data.TaggedError("AgentUnreachable")<{
  readonly message: string;
}> {}

/**
 * The agent's host had the call and did not answer. It may have been done, and it may end the next
 * host too, so don't retry it.
 */
export class CallLost extends AgentUnreachable {}
