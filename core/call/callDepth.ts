/**
 * How many agents wait for a call, each for the next. Agents that call each other without end would
 * fill the memory of their hosts, whose other agents would no longer be answered. The depth is
 * passed on with each call (`Call`), so it counts across hosts.
 */
import * as Data from "effect/Data";
import type { AgentId } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";

/** Useful chains have a few agents; a longer one is two agents that call each other. */
export const CALL_DEPTH_MAX = 32;

/** The call was not made: 32 agents wait for it, each for the next. */
class CallTooDeep extends Data.TaggedError("CallTooDeep")<{ readonly message: string }> {}

/** Throws `CallTooDeep`. `depth`: undefined or 0 where no agent's code calls. */
export function deepened(id: AgentId, call: Call, depth = 0): Call {
  if (depth === 0) return call;
  if (depth <= CALL_DEPTH_MAX) return { ...call, depth };
  throw new CallTooDeep({
    message: `${id.class}/${id.name} was not called: ${CALL_DEPTH_MAX} agents wait for this call, each for the next. Do two of them call each other without end?`,
  });
}
