/**
 * `env.RepoAgent`: the binding of an agent class, and its stubs. A stub forwards HTTP requests
 * (`fetch`) and calls the agent's public methods (`protocol.md` §1, `interface.md` §4).
 */
import { agentId, type AgentId } from "../../schemas/Address.ts";
import { topLevelId, type TopLevelId } from "../../schemas/AgentPath.ts";
import type { CallReply, HeaderPairs } from "../../schemas/Call.ts";
import type { CallClient, CallResult } from "../call/CallClient.ts";
import { CallTries } from "../call/CallTries.ts";
import { REDACTION } from "../redaction/Redaction.ts";
import { namesSubAgent } from "./subAgentPaths.ts";
import type { MailInput } from "../mail/AgentEmail.ts";
import type { MailDrop } from "../mail/mailDrop.ts";
import { LazyRequest } from "../lazyFetch/LazyRequest.ts";
import { LazyResponse } from "../lazyFetch/LazyResponse.ts";
import { decodeError } from "../call/remoteError.ts";
import { checkCallKey } from "../call/durableCall.ts";
import { assertWireValue } from "../call/wireValue.ts";
import type { AgentStub } from "./AgentStub.ts";
import { instanceId, type AgentInstanceId } from "./instanceId.ts";
import { decodeObjectValue, encodeObjectValue } from "./objectValues.ts";
import {
  stubTarget,
  TARGET,
  type CallClientSource,
  type StubMaking,
  type StubTarget,
} from "./stubTarget.ts";
import { isUpgrade, refusedUpgrade, upgradeResponse } from "./upgradeResponse.ts";

/** How long a stub's call may take, moves of the agent included. */
const STUB_DEADLINE_MS = 60_000;
/** Methods that HTTP defines as safe to repeat. */
const REPEATABLE = new Set(["GET", "HEAD", "OPTIONS"]);

const RPC = { kind: "rpc" } as const;

/** Options of `getAgentByName` and of a binding's `getByName`. */
export interface StubOptions {
  /** Passed to `onStart` when a call of this stub starts the agent. JSON. */
  readonly props?: unknown;
  /** Accepted for apps written for the reference, and ignored. */
  readonly locationHint?: string;
  /** Accepted for apps written for the reference, and ignored. */
  readonly jurisdiction?: string;
  /** Accepted and ignored: calls always wait for an agent that moves between hosts. */
  readonly routingRetry?: unknown;
}

/** The binding of one agent class, in `env` under the name of the class. */
export class AgentNamespace<A = unknown> {
  /** Name of the agent class. */
  readonly className: string;
  readonly #client: CallClientSource;
  readonly #mail: MailDrop | undefined;

  constructor(className: string, client: CallClientSource, mail?: MailDrop) {
    this.className = className;
    this.#client = client;
    this.#mail = mail;
  }

  /**
   * The source of its calls. Static, so that users' code, which holds the binding, does not see it.
   */
  static callsOf(namespace: AgentNamespace): CallClientSource {
    return namespace.#client;
  }

  /**
   * The id of the agent with this name. Throws `InvalidAddress` for an empty name, one longer than
   * 1,024 bytes of UTF-8, and one that begins with "/", which is the form of sub-agents' names.
   */
  idFromName(name: string): AgentInstanceId {
    return instanceId(this.#idOf(name));
  }

  /** A stub for the agent with this id. Does not start the agent. Throws `InvalidAddress`. */
  get(id: AgentInstanceId, options: StubOptions = {}): AgentStub<A> {
    return makeStub<A>(this.#client, this.#idOf(id.name), options);
  }

  /** A stub for the agent with this name. Does not start the agent. Throws `InvalidAddress`. */
  getByName(name: string, options: StubOptions = {}): AgentStub<A> {
    return this.get(this.idFromName(name), options);
  }

  /**
   * For `routeAgentEmail`: resolves when the message is in the agent's inbox. Rejects with
   * `MailNotStored` or `InvalidAddress`.
   */
  async takeMail(
    name: string,
    mail: MailInput,
    { isSigned = false }: { readonly isSigned?: boolean } = {},
  ): Promise<void> {
    if (this.#mail === undefined)
      throw new Error(
        `routeAgentEmail: this process takes no mail, so none was stored for ${this.className}. Use it in the module's email handler`,
      );
    // An address that this installation signed is trusted, even that of a sub-agent.
    return this.#mail(isSigned ? agentId(this.className, name) : this.#idOf(name), mail);
  }

  /**
   * Starts the agent and waits until `onStart` has finished. Rejects with the error of `onStart`,
   * `InvalidAddress` or `AgentUnreachable`.
   */
  async start(name: string, props?: unknown): Promise<void> {
    const id = this.#idOf(name);
    const options = { deadlineMs: STUB_DEADLINE_MS, repeatable: true };
    const given = props === undefined ? {} : { props };
    const { reply } = await this.#client().call(id, { kind: "state", ...given }, options);
    if (reply.kind === "error") throw decodeError(reply);
  }

  #idOf(name: string): TopLevelId {
    return topLevelId(this.className, name);
  }
}

/**
 * Starts the agent `name` of a binding and resolves to a stub for it. Rejects with
 * `InvalidAddress`, `AgentUnreachable`, the error of `onStart`, or `TypeError` for a value that is
 * not a binding.
 */
export async function getAgentByName<A = unknown>(
  namespace: AgentNamespace<A>,
  name: string,
  options: StubOptions = {},
): Promise<AgentStub<A>> {
  if (typeof (namespace as Partial<AgentNamespace<A>> | undefined)?.idFromName !== "function")
    throw new TypeError(
      "getAgentByName: the first argument is not an agent binding. Export the class from the module and use env.<ClassName>",
    );
  await namespace.start(name, options.props);
  return namespace.getByName(name, options);
}

/** Names that `await` and loggers look up on any object. They are never remote methods. */
const NOT_REMOTE = new Set<PropertyKey>(["then", "catch", "finally", "toJSON", "constructor"]);

const ITSELF = <R>(_method: string, answer: Promise<R>): Promise<R> => answer;

/**
 * The same stub, whose calls have a key: that of one call, however often it is made. Its methods
 * are durable ones (`@callable({ durable: true })`): the call is applied once, and each time it is
 * made it has what the first one ended with. While hosts are lost it is asked again. In a step,
 * `step.key` is a key for what the step asks of one agent. Throws `TypeError` for what is no stub,
 * and for a key that is not text of 1 to 255 characters.
 */
export function withKey<Stub extends object>(stub: Stub, key: string): Stub {
  const target = stubTarget(stub);
  if (target === undefined)
    throw new TypeError(
      "withKey: the first argument is not a stub: take one from getAgentByName, or from a binding's getByName",
    );
  checkCallKey(key);
  const { client, id, options } = target;
  if (options.objectId !== undefined)
    throw new TypeError("withKey: a Durable Object has no durable methods; an agent has");
  return makeStub(client, id, { ...options, key }) as Stub;
}

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
    if (isUpgrade(request)) return upgrade(client, id, { request, given });
    const body = taken === undefined ? await bodyOf(request) : (taken ?? undefined);
    const { result, from } = await fetchFrom(client, id, { request, body, given });
    return toResponse(result.reply, result.body, (stream) => pulled(client(), from, stream));
  };
  const callWithRequest = async (to: string, request: Request): Promise<unknown> => {
    const taken = LazyRequest.take(request);
    const body = taken === undefined ? await bodyOf(request) : (taken ?? undefined);
    const { result } = await fetchFrom(client, id, { request, body, given: { ...given, to } });
    const { reply } = result;
    if (reply.kind === "result") return resultOf(reply);
    if (reply.kind === "error") throw decodeError(reply);
    return toResponse(reply, result.body, (stream) => pulled(client(), id, stream));
  };
  const sent = (method: string, args: unknown[]) => {
    if (objectId !== undefined)
      return { args: [encodeObjectValue(args, `the arguments of ${method}`)], structured: true } as const; // prettier-ignore
    args.forEach((arg, i) => assertWireValue(arg, `argument ${i + 1} of ${method}`));
    return { args };
  };
  const call =
    (method: string) =>
    async (...args: unknown[]): Promise<unknown> => {
      // An argument left out at the end stays left out: the method's default is used.
      while (args.length > 0 && args.at(-1) === undefined) args.pop();
      if (args.length === 1 && args[0] instanceof Request && callKey === undefined)
        return callWithRequest(method, args[0]);
      const what = callKey === undefined ? RPC : { kind: "durable" as const, key: callKey };
      const { reply } = await client().call(
        id,
        { ...what, method, ...sent(method, args), ...given },
        { deadlineMs: STUB_DEADLINE_MS, repeatable: callKey !== undefined },
      );
      if (reply.kind === "result") return resultOf(reply);
      throw reply.kind === "error"
        ? decodeError(reply)
        : new Error(`unexpected ${reply.kind} reply`);
    };
  return new Proxy({} as AgentStub<A>, {
    get: (_target, key) => {
      if (key === "fetch")
        return (...request: Parameters<typeof fetchAgent>) => through(key, fetchAgent(...request));
      if (key === "name") return shownId.name;
      if (key === "id") return shownId;
      if (key === TARGET) return { client, id, options } satisfies StubTarget;
      if (typeof key === "symbol" || NOT_REMOTE.has(key)) return undefined;
      return (...args: unknown[]) => through(key, call(key)(...args));
    },
  });
}

const resultOf = ({ value, structured }: CallReply & { readonly kind: "result" }): unknown =>
  structured === true ? decodeObjectValue(value) : value;

/** The most sub-agents that a request can pass; an address can't name as many. */
const FORWARDS_MAX = 64;

const bodyOf = async (request: Request): Promise<Uint8Array | undefined> =>
  request.body === null ? undefined : new Uint8Array(await request.arrayBuffer());

interface Fetched {
  readonly request: Request;
  readonly body: Uint8Array | undefined;
  /** `to`: the method that takes the request, which is then not repeated. */
  readonly given: { readonly props?: unknown; readonly to?: string };
}

/**
 * Sends a request, and passes it on to the sub-agent that its URL names. `from` is the agent that
 * answered. Props are for the first.
 */
async function fetchFrom(
  client: CallClientSource,
  first: AgentId,
  { request, body, given }: Fetched,
): Promise<{ readonly result: CallResult; readonly from: AgentId }> {
  let id = first;
  let { method, url } = request;
  let headers: HeaderPairs = [...request.headers];
  let sent = body;
  let props = given;
  const abort = LazyRequest.abortOf(request);
  // Shared over all forwards, so that one request crashes a bounded number of hosts.
  const tries = new CallTries();
  for (let forwards = 0; forwards < FORWARDS_MAX; forwards++) {
    const call = { kind: "fetch", id: request.headers.get("x-request-id") ?? "stub", method, url, headers, ...props } as const; // prettier-ignore
    const result = await client().call(id, call, {
      deadlineMs: STUB_DEADLINE_MS,
      repeatable: REPEATABLE.has(method) && given.to === undefined,
      tries,
      ...(abort === undefined ? {} : { abort }),
      ...(sent === undefined ? {} : { body: sent }),
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
  throw new Error(`${REDACTION.url(request.url)} goes on from sub-agent to sub-agent`);
}

/** As `fetchFrom`, for an upgrade. The gateway then connects the socket; a host has none. */
async function upgrade(
  client: CallClientSource,
  first: AgentId,
  { request, given }: Pick<Fetched, "request" | "given">,
): Promise<Response> {
  const { method } = request;
  let id = first;
  let { url } = request;
  let headers: HeaderPairs = [...request.headers];
  let changed = {};
  let { props } = given;
  const abort = LazyRequest.abortOf(request);
  const tries = new CallTries();
  for (let forwards = 0; forwards < FORWARDS_MAX && namesSubAgent(url); forwards++) {
    const more = props === undefined ? {} : { props };
    const { reply } = await client().call(
      id,
      { kind: "gate", id: "upgrade", method, url, headers, ...more },
      {
        deadlineMs: STUB_DEADLINE_MS,
        repeatable: true,
        tries,
        ...(abort === undefined ? {} : { abort }),
      },
    );
    if (reply.kind === "response") return refusedUpgrade(reply.status);
    if (reply.kind === "error") throw decodeError(reply);
    if (reply.kind !== "forward") break;
    id = agentId(...reply.agent);
    ({ url } = reply);
    props = undefined;
    if (reply.headers === undefined) continue;
    ({ headers } = reply);
    changed = { headers };
  }
  return upgradeResponse({ id, url, props, ...changed });
}

/** Statuses whose response has no body by definition; `Response` refuses one. */
const BODILESS = new Set([101, 204, 205, 304]);

function toResponse(
  reply: CallReply,
  body: Uint8Array,
  goOn: (stream: string) => UnderlyingDefaultSource<Uint8Array>,
): Response {
  if (reply.kind === "error") return new Response("Internal Server Error", { status: 500 });
  if (reply.kind !== "response") throw new Error(`unexpected ${reply.kind} reply`);
  const { status, stream } = reply;
  const init = { status, headers: reply.headers as [string, string][] };
  if (stream === undefined) {
    const content = BODILESS.has(status) ? null : (body as Uint8Array<ArrayBuffer>);
    return LazyResponse.of(body, status, reply.headers) ?? new Response(content, init);
  }
  const source = goOn(stream);
  const start = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    if (body.length > 0) controller.enqueue(body);
  };
  return new Response(new ReadableStream({ ...source, start }, { highWaterMark: 0 }), init);
}

/** The rest of a body that the agent still produces; pulled as it is read. */
function pulled(
  client: Pick<CallClient, "call">,
  id: AgentId,
  stream: string,
): UnderlyingDefaultSource<Uint8Array> {
  const ask = (more: { readonly cancel?: true }): ReturnType<CallClient["call"]> =>
    client.call(
      id,
      { kind: "pull", stream, ...more },
      { deadlineMs: STUB_DEADLINE_MS, repeatable: false },
    );
  return {
    async pull(controller) {
      for (;;) {
        const { reply, body } = await ask({});
        if (reply.kind !== "piece" || (reply.end !== undefined && reply.end !== "whole"))
          throw new Error(`The body of ${id.class}/${id.name}'s response broke off`);
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
