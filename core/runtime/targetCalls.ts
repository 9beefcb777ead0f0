/**
 * Calls that refer to `RpcTarget`s, at the agent that owns or receives them: the arguments and
 * results of methods, and calls of a target itself. Part of `handleCall`.
 */
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { methodOfTarget } from "../agent/methods.ts";
import { errorReply } from "../call/remoteError.ts";
import { assertWireValue } from "../call/wireValue.ts";
import { ObjectActor } from "../durableObject/ObjectActor.ts";
import type { AbortSource } from "../lazyFetch/AbortSource.ts";
import { AgentNamespace } from "../namespace/AgentNamespace.ts";
import { encodeObjectValue } from "../namespace/objectValues.ts";
import type { CallClientSource } from "../namespace/stubTarget.ts";
import { isReferred } from "../rpcTarget/RpcTarget.ts";
import { decodedFor } from "../namespace/targetStub.ts";
import type { Turn } from "../turn/Turn.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";

/** Decodes arguments in the turn that receives them: stubs of targets belong to that turn. */
export const structuredArguments = (
  agent: ActiveAgent,
  [text]: ReadonlyArray<unknown>,
): unknown[] => decodedFor(callsOf(agent), text) as unknown[];

/**
 * The reply with a method's result. The value is checked here, so that the agent's author sees an
 * error about it instead of a failure of the bus, and in its turn, because its `toJSON` and its
 * getters are the turn's code. An agent's method may return a target itself.
 */
export const resultReply = (
  agent: ActiveAgent,
  turn: Turn,
  value: unknown,
  { what, structured }: { readonly what: string; readonly structured: boolean },
): CallReply =>
  agent.inTurn(turn, () => {
    if (structured || isReferred(value)) {
      const text = encodeObjectValue(value, what, (target) => agent.keeping.lent.lend(target));
      return { kind: "result", value: text, structured: true };
    }
    assertWireValue(value, what);
    return { kind: "result", ...(value === undefined ? {} : { value }) };
  });

/** The reply with what a method threw. Rethrows it if the agent was lost. */
export function failureReply({ isLost }: ActiveAgent, error: unknown): CallReply {
  if (isLost) throw error;
  return errorReply(error);
}

/** Runs as a turn of the agent, like a call of its own method. `abort` aborts that turn. */
export async function runTargetCall(
  agent: ActiveAgent,
  { target: key, method: name, args, depth }: Call & { readonly kind: "target" },
  abort: AbortSource | undefined,
): Promise<CallReply> {
  const actor = agent.agent;
  const cause = { kind: "rpc", type: name, time: agent.time.nowMs() } as const;
  try {
    return await agent.keeping.lent.use(key, async (target) => {
      const method = methodOfTarget(target, name);
      const call = (): unknown => method.apply(target, structuredArguments(agent, args));
      const turn = agent.newTurn(cause, { abort, depth });
      const value = await agent.run(turn, () =>
        actor instanceof ObjectActor ? actor.inOrder(call) : call(),
      );
      return resultReply(agent, turn, value, { what: `the result of ${name}`, structured: true });
    });
  } catch (error) {
    return failureReply(agent, error);
  }
}

/** Calls use the binding of the agent's own class, which its module exports. */
const callsOf = (agent: ActiveAgent): CallClientSource => {
  const own = (agent.parts.env as Readonly<Record<string, unknown>>)[agent.id.class];
  if (own instanceof AgentNamespace) return AgentNamespace.callsOf(own);
  throw new Error(`the module no longer exports ${agent.id.class}: export it again`);
};
