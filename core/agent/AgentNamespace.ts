/**
 * `env.RepoAgent`: the binding of an agent class, and the stubs it gives. A stub forwards HTTP requests
 * (`fetch`) and calls the agent's public methods (`protocol.md` §1, `interface.md` §4).
 */
import { agentId, type AgentId } from "../../schemas/Address.ts";
import type { CallReply, HeaderPairs } from "../../schemas/Call.ts";
import type { CallClient } from "../call/CallClient.ts";
import type { MailInput } from "../mail/AgentEmail.ts";
import type { MailDrop } from "../mail/mailDrop.ts";
import { decodeError } from "../call/remoteError.ts";
import { assertWireValue } from "../call/wireValue.ts";
import type { Agent } from "./Agent.ts";
import { isUpgrade, upgradeResponse } from "./upgradeResponse.ts";

/** How long a stub's call may take, moves of the agent included. */
const STUB_DEADLINE_MS = 60_000;
/** Methods that HTTP defines as safe to repeat. */
const REPEATABLE = new Set(["GET", "HEAD", "OPTIONS"]);

export interface AgentNamespaceId {
  readonly name: string;
  toString(): string;
  equals(other: AgentNamespaceId): boolean;
}

export interface StubOptions {
  /** Given to `onStart` when this call is what starts the agent. */
  readonly props?: unknown;
  /** Where the reference's platform places an agent; accepted, and means nothing here. */
  readonly locationHint?: string;
  readonly jurisdiction?: string;
  /** The reference's; calls here always wait for an agent that is on the move. */
  readonly routingRetry?: unknown;
}

/** Methods of the base class that a stub may call: those that make sense from outside. */
export type PublicOfBase = "setState" | "broadcast" | "destroy";

/**
 * A handle on one agent: `fetch`, and every public method of its class as an async function. Arguments and
 * results are JSON (`core/call/wireValue`); what a method throws arrives with name, message and cause.
 */
export type AgentStub<A = unknown> = {
  readonly name: string;
  readonly id: AgentNamespaceId;
  fetch(request: Request | string | URL, init?: RequestInit): Promise<Response>;
} & {
  readonly [
    K in Exclude<keyof A, Exclude<keyof Agent, PublicOfBase> | "fetch"> as A[K] extends (
      ...args: never[]
    ) => unknown
      ? K
      : never
  ]: A[K] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

/** Makes a stub's calls; the gateway's or the host's. Resolved late: a binding exists before its process runs. */
export type CallClientSource = () => Pick<CallClient, "call">;

export class AgentNamespace<A = unknown> {
  readonly className: string;
  readonly #client: CallClientSource;
  readonly #mail: MailDrop | undefined;

  constructor(className: string, client: CallClientSource, mail?: MailDrop) {
    this.className = className;
    this.#client = client;
    this.#mail = mail;
  }

  /** Throws `InvalidAddress` for an empty name or one past 1,024 bytes. */
  idFromName(name: string): AgentNamespaceId {
    const { class: className } = agentId(this.className, name);
    const key = `${className}/${name}`;
    return { name, toString: () => key, equals: (other) => other.toString() === key };
  }

  get(id: AgentNamespaceId, options: StubOptions = {}): AgentStub<A> {
    return makeStub<A>(
      this.#client,
      agentId(this.className, id.name),
      this.idFromName(id.name),
      options,
    );
  }

  getByName(name: string, options: StubOptions = {}): AgentStub<A> {
    return this.get(this.idFromName(name), options);
  }

  /** For `routeAgentEmail`: resolves when the message is in the agent's inbox. Rejects with `MailNotStored` or `InvalidAddress`. */
  async takeMail(name: string, mail: MailInput): Promise<void> {
    if (this.#mail === undefined) throw new Error("This process was joined without mail");
    return this.#mail(agentId(this.className, name), mail);
  }

  /** Waits until the agent is started (`onStart` has finished). Rejects with what `onStart` threw. */
  async start(name: string, props?: unknown): Promise<void> {
    const id = agentId(this.className, name);
    const options = { deadlineMs: STUB_DEADLINE_MS, repeatable: true };
    const given = props === undefined ? {} : { props };
    const { reply } = await this.#client().call(id, { kind: "state", ...given }, options);
    if (reply.kind === "error") throw decodeError(reply);
  }
}

/**
 * A handle on the agent `name` of a binding, once it is started.
 * Rejects with `InvalidAddress`, `AgentUnreachable`, or an error of `onStart`.
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

/** Names that are looked up on any object (by `await`, by loggers): never remote methods. */
const NOT_REMOTE = new Set<PropertyKey>(["then", "catch", "finally", "toJSON", "constructor"]);

function makeStub<A>(
  client: CallClientSource,
  id: AgentId,
  namespaceId: AgentNamespaceId,
  { props }: StubOptions,
): AgentStub<A> {
  const given = props === undefined ? {} : { props };
  const fetchAgent = async (
    input: Request | string | URL,
    init?: RequestInit,
  ): Promise<Response> => {
    const request = new Request(input, init);
    // The gateway takes it from here; on a host there is no socket to take.
    if (isUpgrade(request)) return upgradeResponse({ id, url: request.url, props });
    const body = request.body === null ? undefined : new Uint8Array(await request.arrayBuffer());
    const result = await client().call(
      id,
      {
        kind: "fetch",
        id: request.headers.get("x-request-id") ?? "stub",
        method: request.method,
        url: request.url,
        headers: [...request.headers],
        ...given,
      },
      {
        deadlineMs: STUB_DEADLINE_MS,
        repeatable: REPEATABLE.has(request.method),
        ...(body === undefined ? {} : { body }),
      },
    );
    return toResponse(result.reply, result.body, (stream) => pulled(client(), id, stream));
  };
  const call =
    (method: string) =>
    async (...args: unknown[]): Promise<unknown> => {
      // An argument left out at the end stays left out: the method's default is used.
      while (args.length > 0 && args.at(-1) === undefined) args.pop();
      args.forEach((arg, i) => assertWireValue(arg, `argument ${i + 1} of ${method}`));
      const { reply } = await client().call(
        id,
        { kind: "rpc", method, args, ...given },
        { deadlineMs: STUB_DEADLINE_MS, repeatable: false },
      );
      if (reply.kind === "result") return reply.value;
      throw reply.kind === "error"
        ? decodeError(reply)
        : new Error(`unexpected ${reply.kind} reply`);
    };
  return new Proxy({} as AgentStub<A>, {
    get: (_target, key) => {
      if (key === "fetch") return fetchAgent;
      if (key === "name") return id.name;
      if (key === "id") return namespaceId;
      if (typeof key === "symbol" || NOT_REMOTE.has(key)) return undefined;
      return call(key);
    },
  });
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
  const headers = new Headers();
  for (const [name, value] of reply.headers as HeaderPairs) headers.append(name, value);
  const { status, stream } = reply;
  if (stream === undefined) {
    const content = BODILESS.has(status) ? null : (body as Uint8Array<ArrayBuffer>);
    return new Response(content, { status, headers });
  }
  const source = goOn(stream);
  const start = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    if (body.length > 0) controller.enqueue(body);
  };
  return new Response(new ReadableStream({ ...source, start }, { highWaterMark: 0 }), {
    status,
    headers,
  });
}

/** The rest of a body that the agent is still making; pulled as it is read. */
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
