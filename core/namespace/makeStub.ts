/**
 * Makes stubs: objects that stand for an agent on any host. A stub's methods call the agent's
 * public methods by RPC, and its `fetch` sends a request (`stubFetch`). Used by the bindings of
 * agents, sub-agents and Durable Objects.
 */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { checkCallKey } from "../call/durableCall.ts";
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

const ITSELF = <R>(_method: string, answer: Promise<R>): Promise<R> => answer;

/** A stub for any address, a sub-agent's included. */
export function makeStub<A>(
  client: CallClientSource,
  id: AgentId,
  options: StubMaking = {},
): AgentStub<A> {
  const { props, key: callKey, through = ITSELF, objectId } = options;
  const given = props === undefined ? {} : { props };
  const shownId = objectId ?? instanceId(id);
  const fetchAgent = async (
    input: Request | string | URL,
    init?: RequestInit,
  ): Promise<Response> => {
    const taken = init === undefined ? LazyRequest.take(input) : undefined;
    const request = taken === undefined ? new Request(input, init) : (input as Request);
    // The request may be a copy, without the mark.
    const isReadonly = isReadonlyUpgrade(input);
    if (isUpgrade(request)) return upgrade(client, id, { request, given, isReadonly });
    const body = taken === undefined ? await bodyOf(request) : (taken ?? undefined);
    const { result, from } = await fetchFrom(client, id, { request, body, given });
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
      // An argument left out at the end stays left out: the method's default is used.
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
      if (key === "fetch")
        return (...request: Parameters<typeof fetchAgent>) => through(key, fetchAgent(...request));
      if (key === "name") return shownId.name;
      if (key === "id") return shownId;
      if (key === TARGET) return { client, id, options } satisfies StubTarget;
      if (key === "toJSON") return refuseJson(addressKey(id));
      if (!isRemoteMethod(key)) return undefined;
      return (...args: unknown[]) => through(key, call(key)(...args));
    },
  });
}

/**
 * The same stub, whose calls have this key: however often such a call is made, it is one call. Its
 * methods are durable (`@callable({ durable: true })`): the call is applied once, and a repetition
 * returns the first one's result. While hosts are lost, it is repeated. In a step, `step.key` is a
 * key for what the step asks of one agent. Throws `TypeError` for a value that is not a stub, and
 * for a key that is not text of 1 to 255 characters.
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
