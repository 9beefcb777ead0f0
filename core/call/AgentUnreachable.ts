/** The errors of calls that no host has answered. `CallClient` rejects with them. */
import * as Data from "effect/Data";

/** No host answered for the agent within the deadline. Retry later. */
export class AgentUnreachable extends Data.TaggedError("AgentUnreachable")<{
  readonly message: string;
}> {}

/** The broker's login may not call the agent. A retry is denied, too. */
export class CallDenied extends AgentUnreachable {}

/**
 * The agent's host had the call and did not answer. It may have been done, and it may end the next
 * host too, so don't retry it.
 */
export class CallLost extends AgentUnreachable {}

/** The deadline passed while the host had the call. The turn may still run to its end. */
export class CallTimedOut extends AgentUnreachable {}
