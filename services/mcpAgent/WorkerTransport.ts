/**
 * The SDK's streamable HTTP transport, for an agent: its session outlives the process. The first
 * request after a start finds the session in `storage`, and gives the server the client's
 * `initialize` again, so that it knows the client's capabilities.
 *
 * 1. A session that `storage` knows is restored before the first request is handled, once.
 * 2. Nobody receives the answer to the restoring request: it is neither stored as an event nor
 *    announced.
 * 3. Requests that were running when the agent left memory are answered with an error (the event
 *    store's rule 3), so that a client that resumes does not wait for ever.
 * 4. A client's own stream begins with a comment: a response's head leaves with its first bytes.
 * 5. A request whose id is that of one that runs is refused: the SDK would answer neither rightly.
 * 6. A request that the client cancels is answered with an error, as in the SDK for Python. The
 *    SDK's server answers it no more, and without an answer its stream stays open: six use up a
 *    browser's connections to the server. Clients ignore the answer.
 * 7. A message is parsed here, so its size is bounded here, too (`maxRequestBodySize`, and
 *    `messageBounds`).
 * 8. A client that opens a stream again takes the place of the connection that has it, which may be
 *    lost without this side knowing. The SDK would refuse the client until it is known.
 */
import {
  WebStandardStreamableHTTPServerTransport,
  type EventStore,
  type WebStandardStreamableHTTPServerTransportOptions,
} from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { AuthInfo } from "@modelcontextprotocol/sdk/server/auth/types.js";
import type { TransportSendOptions } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { InitializeRequestParams, JSONRPCMessage, RequestId } from "@modelcontextprotocol/sdk/types.js"; // prettier-ignore
import { once } from "../../core/retry/once.ts";
import { preflight, withCors, type CORSOptions } from "../mcpHandler/cors.ts";
import { bytesOf, jsonOf, MESSAGE_BYTES_MAX, messageRefusal } from "../mcpHandler/messageBounds.ts";
import { boundedBody } from "./boundedBody.ts";
import { DurableObjectEventStore, STANDALONE_STREAM } from "./DurableObjectEventStore.ts";
import { idTaken } from "./refusals.ts";
import { withRequests, type Requests } from "./requestContext.ts";

/** What `storage` keeps of a session. */
export interface TransportState {
  readonly sessionId?: string;
  readonly initialized: boolean;
  readonly initializeParams?: InitializeRequestParams;
}

/** Where the session is kept, for example a key of the agent's `ctx.storage`. */
export interface MCPStorageApi {
  /** The session; undefined before there is one. */
  get(): Promise<TransportState | undefined> | TransportState | undefined;
  /** Keeps the session. */
  set(state: TransportState): Promise<void> | void;
}

/** Options of `WorkerTransport`, beside those of the SDK's transport. */
export interface WorkerTransportOptions extends WebStandardStreamableHTTPServerTransportOptions {
  /** CORS headers of every response. */
  readonly corsOptions?: CORSOptions;
  /** Default: the session ends with the process. */
  readonly storage?: MCPStorageApi;
}

/** JSON-RPC's code for an error of the server. */
const INTERNAL_ERROR = -32603;
/** The Language Server Protocol's code for a cancelled request; MCP has none. */
const CANCELLED = -32800;
/** The SDK's status for a stream that a connection has. */
const CONFLICT = 409;

interface Session {
  /** Set while the restoring request runs: the id that the session had. */
  restoring: string | undefined;
}

/** Connect a server of the SDK's version 1 to it, and pass it requests. */
export class WorkerTransport extends WebStandardStreamableHTTPServerTransport {
  readonly #session: Session;
  readonly #storage: MCPStorageApi | undefined;
  readonly #corsOptions: CORSOptions | undefined;
  readonly #events: EventStore | undefined;
  readonly #bytesMax: number;
  readonly #running = new Map<RequestId, Running>();
  /** The id of the restoring request, which no client knows. */
  readonly #restoreId = crypto.randomUUID();
  readonly #restored = once(() => this.#restore());
  #started = false;

  constructor({ corsOptions, storage, ...options }: WorkerTransportOptions = {}) {
    const session: Session = { restoring: undefined };
    super(optionsOf(session, options));
    this.#session = session;
    this.#storage = storage;
    this.#corsOptions = corsOptions;
    this.#events = options.eventStore;
    this.#bytesMax = options.maxRequestBodySize ?? MESSAGE_BYTES_MAX;
  }

  /** Whether a server is connected to it. */
  get started(): boolean {
    return this.#started;
  }

  override async start(): Promise<void> {
    await super.start();
    this.#started = true;
  }

  /** Answers one HTTP request of the session. */
  override async handleRequest(
    request: Request,
    given: { readonly parsedBody?: unknown; readonly authInfo?: AuthInfo } = {},
  ): Promise<Response> {
    if (request.method === "OPTIONS") return preflight(this.#corsOptions);
    await this.#restored.get();
    const body = given.parsedBody ?? (await this.#bodyOf(request));
    if (body instanceof Response) return withCors(body, this.#corsOptions);
    const requests: Requests = { ids: requestsOf(body) };
    const taken = this.#takenBy(requests.ids);
    if (taken !== undefined) return withCors(idTaken(taken), this.#corsOptions); // rule 5
    const options = body === undefined ? given : { ...given, parsedBody: body };
    const response =
      this.#replayOf(request) ??
      (await withRequests(requests, () => this.#handle(request, options, body, requests)));
    const { body: stream } = response;
    if (!response.ok || stream === null) return withCors(response, this.#corsOptions);
    const answer = new Response(boundedBody(stream), response);
    return withCors(request.method === "GET" ? begun(answer) : answer, this.#corsOptions);
  }

  override async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if ("id" in message && message.id === this.#restoreId) return; // rule 2
    try {
      const related = options?.relatedRequestId;
      await super.send(message, related === undefined ? {} : { relatedRequestId: related });
    } finally {
      if ("id" in message && !("method" in message)) this.#settle(message.id);
    }
  }

  override async close(): Promise<void> {
    for (const id of this.#running.keys()) this.#settle(id);
    await super.close();
  }

  /** Resolves when every request that was received so far is answered. */
  async idle(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ answered }) => answered));
  }

  async #handle(
    request: Request,
    options: { readonly parsedBody?: unknown; readonly authInfo?: AuthInfo },
    body: unknown,
    requests: Requests,
  ): Promise<Response> {
    const { ids } = requests;
    for (const id of ids) this.#running.set(id, running(requests));
    let response = await super.handleRequest(request, options);
    if (response.status === CONFLICT) {
      await this.#cutStreamOf(request); // rule 8
      response = await super.handleRequest(request, options);
    }
    if (response.ok) for (const id of cancelledBy(body)) await this.#cancel(id);
    // What was refused has run none of them.
    else for (const id of ids) this.#settle(id);
    const initialize = initializeOf(body);
    if (initialize !== undefined && response.ok)
      await this.#storage?.set({
        ...(this.sessionId === undefined ? {} : { sessionId: this.sessionId }),
        initialized: true,
        initializeParams: initialize,
      });
    return response;
  }

  /** Rule 1. */
  async #restore(): Promise<void> {
    const { sessionId, initialized, initializeParams } = (await this.#storage?.get()) ?? {};
    if (initialized !== true || initializeParams === undefined) return;
    this.#session.restoring = sessionId ?? "";
    const message = { jsonrpc: "2.0", id: this.#restoreId, method: "initialize", params: initializeParams }; // prettier-ignore
    const request = new Request("http://agent.invalid/", {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
      },
    });
    try {
      const answer = await super.handleRequest(request, { parsedBody: message });
      await answer.body?.cancel();
    } finally {
      this.#session.restoring = undefined;
    }
    if (this.#events instanceof DurableObjectEventStore)
      await this.#events.interrupted(interruption); // rule 3
  }

  /** Rule 6. */
  async #cancel(id: RequestId): Promise<void> {
    if (!this.#running.has(id)) return;
    const error = { code: CANCELLED, message: "Request cancelled" };
    // Fails if its client has gone.
    await this.send({ jsonrpc: "2.0", id, error }).catch(() => undefined);
  }

  /** Ends the connection that has the stream which the request opens. */
  async #cutStreamOf({ headers }: Request): Promise<void> {
    const last = headers.get("last-event-id");
    const stream = last === null ? undefined : await this.#events?.getStreamIdForEventId?.(last);
    if (stream === undefined || stream === STANDALONE_STREAM)
      return this.closeStandaloneSSEStream();
    for (const [id, { requests }] of this.#running)
      if (requests.stream === stream) this.closeSSEStream(id);
  }

  /**
   * A stream that is over is replayed and ends; the SDK's would wait for more. If the client has
   * all of it, 204 keeps the client from asking again: the SDK's clients do so after each error.
   */
  #replayOf(request: Request): Response | undefined {
    const last = request.headers.get("last-event-id");
    if (request.method !== "GET" || last === null) return undefined;
    if (!(this.#events instanceof DurableObjectEventStore)) return undefined;
    if (request.headers.get("mcp-session-id") !== this.sessionId) return undefined;
    const events = this.#events.endAfter(last);
    if (events === undefined) return undefined;
    if (events.length === 0) return new Response(null, { status: 204 });
    const text = events.map(
      ({ id, message }) => `event: message\nid: ${id}\ndata: ${JSON.stringify(message)}\n\n`,
    );
    return new Response(text.join(""), {
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",
        ...(this.sessionId === undefined ? {} : { "mcp-session-id": this.sessionId }),
      },
    });
  }

  /**
   * The refusal of a message that is not parsed (rule 7). Undefined for what is no JSON or too
   * large: the SDK's transport says so to the client.
   */
  async #bodyOf(request: Request): Promise<unknown> {
    if (request.method !== "POST") return undefined;
    const bytes = await bytesOf(request);
    return bytes.length > this.#bytesMax ? undefined : (messageRefusal(bytes) ?? jsonOf(bytes));
  }

  /** The first id that a request has already, or that two of these have. */
  #takenBy(ids: ReadonlyArray<RequestId>): RequestId | undefined {
    return ids.find((id, n) => this.#running.has(id) || ids.indexOf(id) < n);
  }

  #settle(id: RequestId | undefined): void {
    if (id === undefined) return;
    this.#running.get(id)?.settle();
    this.#running.delete(id);
  }
}

/** Rule 4. */
function begun(response: Response): Response {
  const opening = new TransformStream<Uint8Array, Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode(": open\n\n")),
  });
  return new Response(response.body!.pipeThrough(opening), response);
}

interface Running {
  readonly requests: Requests;
  readonly answered: Promise<void>;
  readonly settle: () => void;
}

function running(requests: Requests): Running {
  let settle = (): void => undefined;
  const answered = new Promise<void>((resolve) => (settle = resolve));
  return { requests, answered, settle };
}

const interruption = (id: RequestId): JSONRPCMessage => ({
  jsonrpc: "2.0",
  id,
  error: {
    code: INTERNAL_ERROR,
    message:
      "The server's host was lost while this request ran; it may have had effects. Send it again only if that is safe",
  },
});

/** The SDK's options, by which a restored session keeps its id, and rule 2 holds. */
function optionsOf(
  session: Session,
  options: WebStandardStreamableHTTPServerTransportOptions,
): WebStandardStreamableHTTPServerTransportOptions {
  const { sessionIdGenerator, onsessioninitialized, eventStore } = options;
  return {
    ...options,
    ...(sessionIdGenerator === undefined
      ? {}
      : { sessionIdGenerator: () => session.restoring ?? sessionIdGenerator() }),
    ...(onsessioninitialized === undefined
      ? {}
      : {
          onsessioninitialized: (id: string) =>
            session.restoring === undefined ? onsessioninitialized(id) : undefined,
        }),
    ...(eventStore === undefined ? {} : { eventStore: exceptRestoring(session, eventStore) }),
  };
}

/** Rule 2: the first event of a stream is stored while its request is handled. */
const exceptRestoring = (session: Session, store: EventStore): EventStore => ({
  storeEvent: async (stream, message) =>
    session.restoring === undefined ? store.storeEvent(stream, message) : "restore",
  replayEventsAfter: (event, how) => store.replayEventsAfter(event, how),
  ...(store.getStreamIdForEventId === undefined
    ? {}
    : { getStreamIdForEventId: (event: string) => store.getStreamIdForEventId!(event) }),
});

const messagesOf = (body: unknown): ReadonlyArray<Partial<Record<string, unknown>>> =>
  (Array.isArray(body) ? body : [body]).filter(
    (each): each is Record<string, unknown> => typeof each === "object" && each !== null,
  );

/** The ids of the requests in a body; a notification has none, an answer no method. */
const requestsOf = (body: unknown): ReadonlyArray<RequestId> =>
  messagesOf(body)
    .filter(({ id, method }) => id !== undefined && typeof method === "string")
    .map(({ id }) => id as RequestId);

const cancelledBy = (body: unknown): ReadonlyArray<RequestId> =>
  messagesOf(body)
    .filter(({ method }) => method === "notifications/cancelled")
    .map(({ params }) => (params as { readonly requestId?: RequestId } | undefined)?.requestId)
    .filter((id) => id !== undefined);

const initializeOf = (body: unknown): InitializeRequestParams | undefined =>
  messagesOf(body).find(({ method }) => method === "initialize")?.["params"] as
    InitializeRequestParams | undefined;
