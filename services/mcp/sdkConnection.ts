/**
 * One connection to an MCP server by the official SDK's client. Loaded for the first connection
 * (`McpClientsLayer`).
 *
 * `auto` tries streamable HTTP, then the older SSE transport if the server's status says that it
 * does not support the first. A connection whose stream breaks is closed: pending requests are
 * rejected with the reason, and the manager makes a new connection.
 *
 * Until a server has answered in the protocol, or has asked for a bearer token, every failure has
 * the same text (`UNREACHABLE`): a caller who may name servers must not learn which ports of the
 * network are open. The log has the cause.
 */
import {
  Client,
  OAuthError,
  ProtocolError,
  SdkHttpError,
  SSEClientTransport,
  SseError,
  StreamableHTTPClientTransport,
  type jsonSchemaValidator,
  type OAuthClientProvider,
} from "@modelcontextprotocol/client";
import {
  McpRequestFailed,
  type ElicitRequest,
  type McpAuthResult,
  type McpConnection,
  type McpConnectOptions,
  type McpConnectResult,
  type McpListKind,
  type McpPromptResult,
  type McpRequestOptions,
  type McpResourceContents,
  type McpTarget,
  type McpToolResult,
} from "../../core/mcp/McpClients.ts";
import { REQUEST_LIFE_MS, type FetchLike, type GuardedFetch, type Wire } from "./guardedFetch.ts";
import { renewedFetch } from "./sdkRenewal.ts";
import { isUnauthorized, requestFailed } from "./sdkErrors.ts";

type Transport = StreamableHTTPClientTransport | SSEClientTransport;
type TransportType = McpConnection["transport"];
/** The text for a closed port, another protocol, a web page, a blocked address and a timeout. */
const UNREACHABLE = "No MCP server can be reached at this URL";

/** The default timeout of a call: the protocol's usual minute. */
const REQUEST_TIMEOUT_MS = 60_000;
/** Pages read of one list, which are thousands of entries. An endless list is cut here. */
const LIST_PAGES_MAX = 50;
/**
 * How soon a stream that has ended is opened again, whatever its server asks for by `retry`: each
 * time costs the host a request, and a timer past 2^31 ms fires at once.
 */
const REOPEN_MIN_MS = 500;
const REOPEN_MAX_MS = REQUEST_LIFE_MS;
/** How long a server may take to answer the end of a session; then the session is left open. */
const CLOSE_TIMEOUT_MS = 2_000;
/**
 * Statuses with which a server of the older transport answers a POST to its stream's URL: the
 * specification's list, and what frameworks use instead.
 */
const NOT_STREAMABLE = new Set([400, 404, 405, 406, 415, 501]);

/** Connects to a server. Never rejects: a failure is a result. */
export async function connect(options: McpConnectOptions, wire: Wire): Promise<McpConnectResult> {
  const types: TransportType[] =
    options.transport === "auto" ? ["streamable-http", "sse"] : [options.transport];
  for (const type of types) {
    const result = await connectBy(type, options, wire);
    if (result._tag !== "NotStreamable") return result;
  }
  return { _tag: "Failed", message: UNREACHABLE };
}

/** The scheme that the protocol demands of servers that require authorization. */
const isBearer = ({ headers }: Response): boolean =>
  /(?:^|,\s*)Bearer\b/i.test(headers.get("www-authenticate") ?? "");

type Attempt = McpConnectResult | { readonly _tag: "NotStreamable" };

async function connectBy(
  type: TransportType,
  options: McpConnectOptions,
  wire: Wire,
): Promise<Attempt> {
  const { open, unreachable } = wire;
  let brokenBy: string | undefined;
  let live = false;
  let ended = false;
  const lost = (message: string): void => {
    if (ended) return;
    ended = true;
    brokenBy = message;
    void client.close().catch(() => undefined);
    guarded.close();
    if (live) options.onClosed(message);
  };
  const guarded = open(options.url, lost);
  let wantsToken = false;
  const noted: FetchLike = async (url, init) => {
    const response = await guarded.fetch(url, init);
    if (response.status === 401 && isBearer(response)) wantsToken = true;
    return response;
  };
  const transport = makeTransport(type, options, renewedFetch(options, noted, wire));
  const client = makeClient(options);
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK has properties, no events
  client.onerror = (error) => {
    // The SDK would reconnect to a new session, which was never initialized.
    if (live && type === "sse" && SseError.isInstance(error)) lost(`The server's stream ended: ${error.message}`); // prettier-ignore
  };
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK has properties, no events
  client.onclose = () => {
    // Before it is live, the SDK closes it and `connect` rejects with the reason.
    if (live) lost("The connection was closed");
  };
  const timeout = new Promise<never>((_resolve, reject) => {
    const expire = (): void => reject(new Error("The server did not answer in time"));
    if (options.signal.aborted) expire();
    options.signal.addEventListener("abort", expire, { once: true });
  });
  try {
    await Promise.race([client.connect(transport, { timeout: REQUEST_TIMEOUT_MS }), timeout]);
    live = true;
    return { _tag: "Connected", connection: connectionOf(client, { type, transport, guarded, why: () => brokenBy, end: () => (ended = true) }) }; // prettier-ignore
  } catch (error) {
    ended = true;
    void client.close().catch(() => undefined);
    guarded.close();
    if (isUnauthorized(error)) return { _tag: "Unauthorized" };
    const failure = requestFailed(error);
    unreachable(options.url, brokenBy ?? failure.message);
    if (wantsToken) return { _tag: "Unauthorized" }; // An authorization can't begin.
    const status = SdkHttpError.isInstance(error) ? error.status : 0;
    if (type === "streamable-http" && NOT_STREAMABLE.has(status)) return { _tag: "NotStreamable" };
    return {
      _tag: "Failed",
      message: ProtocolError.isInstance(error) ? failure.message : UNREACHABLE,
    };
  }
}

/** Exchanges the authorization code of a callback. Never rejects: a failure is a result. */
export async function finishAuth(
  target: McpTarget,
  callback: URLSearchParams,
  { open, unreachable }: Wire,
): Promise<McpAuthResult> {
  const guarded = open(target.url, () => undefined);
  const transport = makeTransport(target.transport === "sse" ? "sse" : "streamable-http", target, guarded.fetch); // prettier-ignore
  const cut = new Promise<never>(
    (_resolve, reject) =>
    target.signal.addEventListener("abort", () => reject(new Error("The authorization server did not answer in time")), { once: true }), // prettier-ignore
  );
  try {
    await Promise.race([transport.finishAuth(callback), cut]);
    return { _tag: "Authorized" };
  } catch (error) {
    unreachable(target.url, requestFailed(error).message);
    return { _tag: "Failed", message: oauthCode(error) ?? "The authorization did not succeed" };
  } finally {
    guarded.close();
  }
}

/**
 * The OAuth error code of an authorization server; undefined when it answered with none. The SDK
 * reports such an answer as `server_error`, with its body.
 */
const oauthCode = (error: unknown): string | undefined =>
  OAuthError.isInstance(error) && OAUTH_CODE.test(error.code) && error.code !== "server_error"
    ? `OAuth: ${error.code}`
    : undefined;
/** RFC 6749, 5.2: names like `invalid_grant`. */
const OAUTH_CODE = /^[a-z_]{1,40}$/;

/**
 * The stream of a session that has no token is refused with 405 in place of 401: without it, not
 * with an authorization of its own, which would spoil the one that the next request begins.
 */
function withoutConsent(fetch: FetchLike): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    const headers = new Headers(init?.headers);
    const isStream = init?.method === "GET" && headers.get("accept") === "text/event-stream";
    if (response.status !== 401 || !isStream || headers.has("authorization")) return response;
    await response.body?.cancel();
    return new Response(null, { status: 405 });
  };
}

function makeTransport(type: TransportType, target: McpTarget, fetch: FetchLike): Transport {
  const { auth, headers, skipIssuerMetadataValidation } = target;
  const options = {
    fetch: type === "sse" ? fetch : withoutConsent(fetch),
    requestInit: { headers: { ...headers } },
    skipIssuerMetadataValidation,
    // Without a redirect URL the user cannot return, so no authorization begins. The shapes agree:
    // the SDK's type is narrower only about JSON that the SDK itself writes and reads.
    ...(auth.redirectUrl === undefined
      ? {}
      : { authProvider: auth as unknown as OAuthClientProvider }),
  };
  const url = new URL(target.url);
  return type === "sse"
    ? new SSEClientTransport(url, options)
    : new StreamableHTTPClientTransport(url, { ...options, reconnectionScheduler: reopenLater });
}

/** Returns what cancels it. */
function reopenLater(reopen: () => void, askedMs: number): () => void {
  const delayMs = Math.min(Math.max(askedMs, REOPEN_MIN_MS), REOPEN_MAX_MS);
  const timer = setTimeout(reopen, delayMs);
  return () => clearTimeout(timer);
}

function makeClient(options: McpConnectOptions): Client {
  const changed = { autoRefresh: false, onChanged: () => options.onListChanged() };
  const client = new Client(options.client, {
    capabilities: { ...options.capabilities },
    listMaxPages: LIST_PAGES_MAX,
    jsonSchemaValidator: UNCHECKED,
    listChanged: { tools: changed, prompts: changed, resources: changed },
  });
  if (options.capabilities["elicitation"] !== undefined)
    client.setRequestHandler("elicitation/create", async (request, { mcpReq }) => {
      const answer = await options.elicit(request as unknown as ElicitRequest, mcpReq.signal);
      return { action: answer.action, ...(answer.content === undefined ? {} : { content: { ...answer.content } }) }; // prettier-ignore
    });
  return client;
}

/**
 * The schema of a tool's result is the server's own. Checking by it would run the server's regular
 * expressions and compile its schemas on the thread of all agents, without a time limit.
 */
const UNCHECKED: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

interface ConnectionParts {
  readonly type: TransportType;
  readonly transport: Transport;
  readonly guarded: GuardedFetch;
  /** Why the connection broke, if it did. */
  readonly why: () => string | undefined;
  /** Marks the connection as closed on purpose. */
  readonly end: () => void;
}

function connectionOf(client: Client, parts: ConnectionParts): McpConnection {
  const { type, transport } = parts;
  let running = 0;
  let closing: Promise<void> | undefined;
  let idle: () => void = () => undefined;
  const close = (): Promise<void> => (closing ??= end(client, parts));
  const ask = async <A>(request: () => Promise<unknown>): Promise<A> => {
    const hasSession =
      transport instanceof StreamableHTTPClientTransport && transport.sessionId !== undefined;
    running += 1;
    try {
      return (await request()) as A;
    } catch (error) {
      const failed = requestFailed(error, hasSession);
      const why = parts.why();
      throw why === undefined ? failed : new McpRequestFailed({ reason: "Closed", message: why });
    } finally {
      running -= 1;
      if (running === 0) idle();
    }
  };
  return {
    transport: type,
    capabilities: { ...client.getServerCapabilities() },
    instructions: client.getInstructions(),
    list: (kind, options) => ask(() => list(client, kind, limits(options))),
    callTool: ({ name, arguments: input }, options) =>
      ask<McpToolResult>(() => client.callTool({ name, ...(input === undefined ? {} : { arguments: { ...input } }) }, limits(options))), // prettier-ignore
    readResource: ({ uri }, options) =>
      ask<McpResourceContents>(() => client.readResource({ uri }, { ...limits(options), cacheMode: "bypass" })), // prettier-ignore
    getPrompt: ({ name, arguments: input }, options) =>
      ask<McpPromptResult>(() => client.getPrompt({ name, ...(input === undefined ? {} : { arguments: { ...input } }) }, limits(options))), // prettier-ignore
    close,
    retire: async () => {
      if (running > 0) await new Promise<void>((resolve) => (idle = resolve));
      await close();
    },
  };
}

async function end(
  client: Client,
  { transport, guarded, end: mark }: ConnectionParts,
): Promise<void> {
  mark();
  const over = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS).unref());
  const ended =
    transport instanceof StreamableHTTPClientTransport ? transport.terminateSession() : undefined;
  await Promise.race([ended?.catch(() => undefined), over]);
  await client.close().catch(() => undefined);
  guarded.close();
}

async function list(
  client: Client,
  kind: McpListKind,
  limit: object,
): Promise<ReadonlyArray<unknown>> {
  const options = { ...limit, cacheMode: "refresh" as const };
  switch (kind) {
    case "tools":
      return (await client.listTools(undefined, options)).tools;
    case "prompts":
      return (await client.listPrompts(undefined, options)).prompts;
    case "resources":
      return (await client.listResources(undefined, options)).resources;
    case "resourceTemplates":
      return listTemplates(client, options);
  }
}

/** Returns none for a server that supports resources but not templates. */
async function listTemplates(client: Client, options: object): Promise<ReadonlyArray<unknown>> {
  try {
    return (await client.listResourceTemplates(undefined, options)).resourceTemplates;
  } catch (error) {
    if (requestFailed(error).code === METHOD_NOT_FOUND) return [];
    throw error;
  }
}
/** JSON-RPC's code for an unknown method. */
const METHOD_NOT_FOUND = -32601;

function limits({ timeout = REQUEST_TIMEOUT_MS, signal, onprogress }: McpRequestOptions) {
  return {
    timeout: Math.min(timeout, REQUEST_LIFE_MS),
    maxTotalTimeout: REQUEST_LIFE_MS,
    ...(signal === undefined ? {} : { signal }),
    ...(onprogress === undefined ? {} : { onprogress: (progress: Parameters<typeof onprogress>[0]) => onprogress(progress), resetTimeoutOnProgress: true }), // prettier-ignore
  };
}
