/**
 * Creates stubs, which represent an agent on any host. A stub's methods call the agent's public
 * methods by RPC, and its `fetch` sends a request (`stubFetch`). Used by the bindings of agents,
 * sub-agents and Durable Objects.
 */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { checkCallKey } from "../call/durableCall.ts";
import { decodeError } from "../call/remoteError.ts";
import { assertWireValue } from "../call/wireValue.ts";
import { LazyRequest } from "../lazyFetch/LazyRequest.ts";
import { isReferred } from "../rpcTarget/RpcTarget.ts";
import type { AgentStub } from "./AgentStub.ts";
import { instanceId } from "./instanceId.ts";
import { isRemoteMethod, refuseJson } from "./remoteNames.ts";
import { bodyOf, fetchFrom, pulled, toResponse, upgrade } from "./stubFetch.ts";
import {
  STUB_DEADLINE_MS,
  stubTarget,
  TARGET,
  type CallClientSource,
  type StubMaking,
  type StubTarget,
} from "./stubTarget.ts";
import { callStructured, resultOf } from "./targetStub.ts";
import { isReadonlyUpgrade, isUpgrade } from "../socket/upgradeRequest.ts";

const RPC = { kind: "rpc" } as const;

/** A stub for any address, including a sub-agent's. */
export function makeStub<A>(
  client: CallClientSource,
  id: AgentId,
  options: StubMaking = {},
): AgentStub<A> {
  const { props, key: callKey, before, objectId } = options;
  const given = props === undefined ? {} : { props };
  const shownId = objectId ?? instanceId(id);
  const fetchAgent = async (
    input: Request | string | URL,
    init?: RequestInit,
  ): Promise<Response> => {
    const taken = init === undefined ? LazyRequest.take(input) : undefined;
    const request = taken === undefined ? new Request(input, init) : (input as Request);
    // Read from `input`, because a copied request lacks the mark.
    const isReadonly = isReadonlyUpgrade(input);
    if (isUpgrade(request)) return upgrade(client, id, { request, given, isReadonly });
    const body = taken === undefined ? await bodyOf(request) : (taken ?? undefined);
    const { result, from } = await fetchFrom(client, id, { request, body, given });
    if (objectId !== undefined && result.reply.kind === "error") throw decodeError(result.reply);
    return toResponse(result.reply, result.body, (stream) => pulled(client(), from, stream));
  };
  const callWithRequest = async (to: string, request: Request): Promise<unknown> => {
    const taken = LazyRequest.take(request);
    const body = taken === undefined ? await bodyOf(request) : (taken ?? undefined);
    const { result } = await fetchFrom(client, id, { request, body, given: { ...given, to } });
    const { reply } = result;
    if (reply.kind === "result" || reply.kind === "error") return resultOf(client, reply);
    return toResponse(reply, result.body, (stream) => pulled(client(), id, stream));
  };
  const call =
    (method: string) =>
    async (...args: unknown[]): Promise<unknown> => {
      if (before !== undefined) await before();
      // Omitted trailing arguments stay omitted, so that the method's defaults apply.
      while (args.length > 0 && args.at(-1) === undefined) args.pop();
      if (args.length === 1 && args[0] instanceof Request && callKey === undefined)
        return callWithRequest(method, args[0]);
      if (objectId !== undefined || (callKey === undefined && args.some(isReferred)))
        return callStructured(client, id, { ...RPC, method, structured: true, ...given }, args);
      args.forEach((arg, i) => assertWireValue(arg, `argument ${i + 1} of ${method}`));
      const what = callKey === undefined ? RPC : { kind: "durable" as const, key: callKey };
      const { reply } = await client().call(
        id,
        { ...what, method, args, ...given },
        { deadlineMs: STUB_DEADLINE_MS, repeatable: callKey !== undefined },
      );
      return resultOf(client, reply);
    };
  return new Proxy({} as AgentStub<A>, {
    get: (_target, key) => {
      if (key === "fetch") return fetchAgent;
      if (key === "name") return shownId.name;
      if (key === "id") return shownId;
      if (key === TARGET) return { client, id, options } satisfies StubTarget;
      if (key === "toJSON") return refuseJson(addressKey(id));
      if (!isRemoteMethod(key)) return undefined;
      return call(key);
    },
  });
}

/**
 * Returns a stub of the same agent whose calls have this key. It calls durable methods
 * (`@callable({ durable: true })`). Calls with the same key are applied once, and repetitions
 * return the first one's result. A call is repeated when a host is lost. In a step, `step.key` is a
 * suitable key for a call to one agent. Throws `TypeError` for a value that is not a stub, and for
 * a key that is not text of 1 to 255 characters.
 */
export function withKey<Stub extends object>(stub: Stub, key: string): Stub {
  const target = stubTarget(stub);
  if (target === undefined)
    throw new TypeError(
      "withKey: the first argument is not a stub: get one with getAgentByName, or with a binding's getByName",
    );
  checkCallKey(key);
  const { client, id, options } = target;
  if (options.objectId !== undefined)
    throw new TypeError("withKey: only agents have durable methods, not Durable Objects");
  return makeStub(client, id, { ...options, key }) as Stub;
}
