/**
 * Calls whose arguments and results may refer to `RpcTarget`s: those to Durable Objects and to the
 * targets themselves. A reference becomes a stub, whose calls go to the agent that has the target
 * (`LentTargets`), on whichever host runs it. Used by `makeStub`, and by the runtime to decode
 * arguments.
 */
import { agentId, type AgentId } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import type { TargetReference } from "../../schemas/bus/TargetCall.ts";
import { decodeError } from "../call/remoteError.ts";
import { decodeObjectValue, encodeObjectValue } from "./objectValues.ts";
import { isRemoteMethod, refuseJson } from "./remoteNames.ts";
import { STUB_DEADLINE_MS, type CallClientSource } from "./stubTarget.ts";
import { REFERENCE } from "../rpcTarget/RpcTarget.ts";

/** A target whose holder fails to drop it in this time expires by itself. */
const DROP_DEADLINE_MS = 5_000;

type StructuredCall = Call & { readonly kind: "rpc" | "target" };
/** A call without its arguments. */
type CallOf<C> = C extends StructuredCall ? Omit<C, "args"> & { readonly args?: never } : never;

/** Makes the call and settles as it does. Lends the targets in `args` to the callee. */
export async function callStructured(
  client: CallClientSource,
  id: AgentId,
  call: CallOf<StructuredCall>,
  args: ReadonlyArray<unknown>,
): Promise<unknown> {
  const calls = client();
  const turn = calls.callingTurn?.();
  const what = `the arguments of ${call.method}`;
  const text = encodeObjectValue(args, what, (target) => {
    if (turn !== undefined) return turn.lend(target);
    if (calls.lend !== undefined) return calls.lend(target);
    throw new TypeError(
      `${what}: ${target.constructor.name} is an RpcTarget, which this process can't pass, because nothing in it can be called back. Pass data instead`,
    );
  });
  const options = { deadlineMs: STUB_DEADLINE_MS, repeatable: false };
  const { reply } = await calls.call(id, { ...call, args: [text] }, options);
  return resultOf(client, reply);
}

/** The result of a call. Throws the error of a failed one. */
export function resultOf(client: CallClientSource, reply: CallReply): unknown {
  if (reply.kind === "error") throw decodeError(reply);
  if (reply.kind !== "result") throw new Error(`unexpected ${reply.kind} reply`);
  return reply.structured === true ? decodedFor(client, reply.value) : reply.value;
}

/** Decodes a structured value. The running turn holds the targets in it. */
export const decodedFor = (client: CallClientSource, text: unknown): unknown =>
  decodeObjectValue(text, (reference) => borrow(client, reference));

/**
 * Creates the holder's stub. Once the holder has disposed of it or its turn has ended, and the
 * calls made by then are answered, the target's agent is notified that it is no longer held.
 */
function borrow(client: CallClientSource, reference: TargetReference): object {
  const [className, name, target] = reference;
  const id = agentId(className, name);
  const running = new Set<Promise<unknown>>();
  let dropped = false;
  const drop = async (): Promise<void> => {
    if (dropped) return;
    dropped = true;
    await Promise.allSettled(running);
    const options = { deadlineMs: DROP_DEADLINE_MS, repeatable: false };
    await client()
      .call(id, { kind: "drop", target }, options)
      .catch(() => undefined);
  };
  const call =
    (method: string) =>
    async (...args: unknown[]): Promise<unknown> => {
      if (dropped)
        throw new Error(
          `${method}: the RpcTarget of ${className}/${name} was disposed of, or the turn that received it has ended. Request it again`,
        );
      const answer = callStructured(client, id, { kind: "target", target, method }, args);
      running.add(answer);
      return answer.finally(() => running.delete(answer));
    };
  client()
    .callingTurn?.()
    ?.atEnd(() => void drop());
  return new Proxy(
    {},
    {
      get: (_target, key) => {
        if (key === REFERENCE) return reference;
        if (key === "toJSON") return refuseJson(`an RpcTarget of ${className}/${name}`);
        if (key === Symbol.dispose) return () => void drop();
        return isRemoteMethod(key) ? call(key) : undefined;
      },
      has: (_target, key) => key === REFERENCE || key === Symbol.dispose,
    },
  );
}
