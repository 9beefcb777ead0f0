/**
 * A stub's HTTP. Sends a request or an upgrade to an agent, follows it to the sub-agent that its
 * URL names, and turns the reply into a `Response`. A body that the agent is still producing is
 * pulled as it is read. `makeStub` calls it.
 */
import { agentId, type AgentId } from "../../schemas/Address.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import type { HeaderPairs } from "../../schemas/bus/message.ts";
import { isQuiet } from "../call/AnswerBudget.ts";
import type { CallClient } from "../call/CallClient.ts";
import type { CallResult } from "../call/RepeatedCall.ts";
import { CallTries } from "../call/CallTries.ts";
import { decodeError } from "../call/remoteError.ts";
import type { PendingSocket } from "../socket/PendingSocket.ts";
import { ObjectSocket } from "../socket/ObjectSocket.ts";
import { socketResponse } from "../socket/socketResponse.ts";
import { LazyRequest } from "../lazyFetch/LazyRequest.ts";
import { LazyResponse } from "../lazyFetch/LazyResponse.ts";
import { REDACTION } from "../redaction/Redaction.ts";
import { STUB_DEADLINE_MS, type CallClientSource } from "./stubTarget.ts";
import { isTooDeep, namesSubAgent, SUB_AGENTS_MAX } from "./subAgentPaths.ts";
import { refusedUpgrade } from "../socket/upgradeRequest.ts";

/** Methods that HTTP defines as safe to repeat. */
const REPEATABLE = new Set(["GET", "HEAD", "OPTIONS"]);

/** Answers a request whose path names too many sub-agents, before any of them is asked. */
const TOO_DEEP: CallResult = {
  reply: { kind: "response", status: 400, headers: [["content-type", "text/plain;charset=UTF-8"]] },
  body: new TextEncoder().encode(`A path names at most ${SUB_AGENTS_MAX} sub-agents`),
};

export const bodyOf = async (request: Request): Promise<Uint8Array | undefined> =>
  request.body === null ? undefined : new Uint8Array(await request.arrayBuffer());

interface Fetched {
  readonly request: Request;
  readonly body: Uint8Array | undefined;
  /** `to` is the method that receives the request, which is then not repeated. */
  readonly given: { readonly props?: unknown; readonly to?: string };
}

/**
 * Sends a request, and follows it to the sub-agent that its URL names. `from` is the agent that
 * answered. Only the first agent receives the props.
 */
export async function fetchFrom(
  client: CallClientSource,
  first: AgentId,
  { request, body, given }: Fetched,
): Promise<{ readonly result: CallResult; readonly from: AgentId }> {
  if (isTooDeep(request.url)) return { result: TOO_DEEP, from: first };
  let id = first;
  let { method, url } = request;
  let headers: HeaderPairs = [...request.headers];
  let sent = body;
  let props = given;
  const abort = LazyRequest.abortOf(request);
  // Shared by all forwards, so that one request can crash only a bounded number of hosts.
  const tries = new CallTries();
  for (let forwards = 0; forwards < SUB_AGENTS_MAX; forwards++) {
    const call = { kind: "fetch", id: request.headers.get("x-request-id") ?? "stub", method, url, headers, ...props } as const; // prettier-ignore
    const result = await client().call(id, call, {
      deadlineMs: STUB_DEADLINE_MS,
      repeatable: REPEATABLE.has(method) && given.to === undefined,
      tries,
      abort,
      body: sent,
    });
    const { reply } = result;
    if (reply.kind !== "forward") return { result, from: id };
    id = agentId(...reply.agent);
    ({ url } = reply);
    props = {};
    if (reply.headers === undefined) continue;
    ({ headers, method = method } = reply);
    sent = result.body.length === 0 ? undefined : result.body;
  }
  throw new Error(
    `${REDACTION.url(request.url)} was forwarded by more than ${SUB_AGENTS_MAX} sub-agents: does one forward it to itself?`,
  );
}

/**
 * As `fetchFrom`, for an upgrade. The response has the accepted socket as `webSocket`, or is what
 * the agent answered instead.
 */
export async function upgrade(
  client: CallClientSource,
  first: AgentId,
  {
    request,
    given,
    isReadonly,
  }: Pick<Fetched, "request" | "given"> & { readonly isReadonly: boolean },
): Promise<Response> {
  const { method } = request;
  const { sockets } = client();
  if (sockets === undefined)
    throw new TypeError("A stub's fetch was called with an upgrade in a process without sockets");
  const response = (pending: PendingSocket): Response =>
    socketResponse(ObjectSocket.remote({ pending, holder: () => sockets.holder() }));
  if (isTooDeep(request.url)) return response(refusedUpgrade(400));
  let id = first;
  let { url } = request;
  let headers: HeaderPairs = [...request.headers];
  let { props } = given;
  const abort = LazyRequest.abortOf(request);
  const tries = new CallTries();
  const mode = isReadonly ? ({ readonly: true } as const) : {};
  for (let forwards = 0; forwards < SUB_AGENTS_MAX && namesSubAgent(url); forwards++) {
    const more = props === undefined ? {} : { props };
    const { reply } = await client().call(
      id,
      { kind: "gate", id: "upgrade", method, url, headers, ...mode, ...more },
      { deadlineMs: STUB_DEADLINE_MS, repeatable: true, tries, abort },
    );
    if (reply.kind === "response") return response(refusedUpgrade(reply.status));
    if (reply.kind === "error") throw decodeError(reply);
    if (reply.kind !== "forward") break;
    id = agentId(...reply.agent);
    ({ url } = reply);
    props = undefined;
    if (reply.headers === undefined) continue;
    ({ headers } = reply);
  }
  const connected = await sockets.connect(id, {
    url,
    headers,
    ...mode,
    ...(props === undefined ? {} : { props }),
    abort,
  });
  if ("socket" in connected) return response(connected.socket);
  return toResponse(connected.reply, connected.body, (stream) => pulled(client(), id, stream));
}

/** Statuses with which `Response` refuses a body. */
export const BODILESS = new Set([101, 204, 205, 304]);

export function toResponse(
  reply: CallReply,
  body: Uint8Array,
  rest: (stream: string) => UnderlyingDefaultSource<Uint8Array>,
): Response {
  if (reply.kind === "error") return new Response("Internal Server Error", { status: 500 });
  if (reply.kind !== "response") throw new Error(`unexpected ${reply.kind} reply`);
  const { status, stream } = reply;
  const init = { status, headers: reply.headers as [string, string][] };
  if (stream === undefined) {
    const content = BODILESS.has(status) ? null : (body as Uint8Array<ArrayBuffer>);
    return LazyResponse.of(body, status, reply.headers) ?? new Response(content, init);
  }
  const source = rest(stream);
  const start = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    if (body.length > 0) controller.enqueue(body);
  };
  return new Response(new ReadableStream({ ...source, start }, { highWaterMark: 0 }), init);
}

/** The rest of a body that the agent is still producing, pulled as it is read. */
export function pulled(
  client: Pick<CallClient, "call">,
  id: AgentId,
  stream: string,
): UnderlyingDefaultSource<Uint8Array> {
  let quiet = false;
  const ask = (more: { readonly cancel?: true }): ReturnType<CallClient["call"]> =>
    client.call(
      id,
      { kind: "pull", stream, ...more },
      { deadlineMs: STUB_DEADLINE_MS, repeatable: false, quiet },
    );
  return {
    async pull(controller) {
      for (;;) {
        const { reply, body } = await ask({});
        if (reply.kind !== "piece" || (reply.end !== undefined && reply.end !== "whole"))
          throw new Error(`The body of ${id.class}/${id.name}'s response broke off`);
        quiet = isQuiet(body.length);
        if (body.length > 0) controller.enqueue(body);
        if (reply.end === "whole") return controller.close();
        if (body.length > 0) return;
      }
    },
    async cancel() {
      await ask({ cancel: true }).catch(() => undefined);
    },
  };
}
