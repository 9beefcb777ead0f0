/**
 * Handles a user's return from an authorization server (`protocol.md` §3, §9): checks and uses up
 * the state, exchanges the code, and redirects the user.
 *
 * 1. The state is checked, then consumed and that is stored, and then the code is exchanged. A
 *    callback that can't be verified changes nothing, and one that is seen twice is exchanged once.
 * 2. A callback that is repeated, as browsers do, has the answer of the first while that is
 *    exchanged. Later, the last one that succeeded is answered as a success, for as long as the
 *    agent is in memory.
 * 3. A user is not sent to an authorization whose state is no longer valid: its callback would
 *    change nothing.
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import { errorText } from "./errorText.ts";
import type { McpClientsShape } from "./McpClients.ts";
import type { McpServer } from "./McpServer.ts";
import type { McpOAuthCallbackResult, McpServerState } from "./McpServerState.ts";
import { parseState, type OAuthProvider } from "./OAuthProvider.ts";
import { parseSubAgentPath } from "../namespace/subAgentPaths.ts";

/** A user waits for it, in front of an empty page. */
const EXCHANGE_TIMEOUT_MS = 20_000;
const FOUND = 302;
/** The nonce of each server's last callback that has succeeded (rule 2). */
const succeeded = new WeakMap<McpServer, string>();

export interface OAuthCallbackConfig {
  readonly successRedirect?: string;
  /** Receives `?error=…`. */
  readonly errorRedirect?: string;
  /** Answers instead of any redirect. */
  readonly customHandler?: (result: McpOAuthCallbackResult) => Response | Promise<Response>;
}

/** The server whose callback it is: by its state, and at the very URL that was given for it. */
export function serverOfCallback(
  request: Request,
  servers: ReadonlyMap<string, McpServer>,
): McpServer | undefined {
  if (request.method !== "GET" || !request.url.includes("state=")) return undefined;
  const url = new URL(request.url);
  const state = parseState(url.searchParams.get("state"));
  const server = state && servers.get(state.serverId);
  if (server === undefined || !URL.canParse(server.row.callback_url)) return undefined;
  const wanted = new URL(server.row.callback_url);
  const isOurs = wanted.pathname === url.pathname || seenPath(wanted) === url.pathname;
  return wanted.origin === url.origin && isOurs ? server : undefined;
}

/** The path that a sub-agent sees of a URL that leads to it. */
function seenPath(url: URL): string {
  const { pathname } = url;
  const match = parseSubAgentPath(url.href);
  return match === null ? pathname : seenPath(new URL(match.remainingPath, url));
}

/** Where the user of a server has to go; undefined unless a callback from there can succeed. */
export async function pendingAuthUrl(server: McpServer): Promise<string | undefined> {
  const { auth_url: authUrl } = server.row;
  if (server.state !== "authenticating" || authUrl === null) return undefined;
  const state = URL.canParse(authUrl) ? new URL(authUrl).searchParams.get("state") : null;
  if (state === null) return authUrl;
  const { valid } = await server.provider().checkState(state); // rule 3
  // The state of a callback that is being handled is used up.
  return valid || server.callbacks.has(parseState(state)?.nonce ?? "") ? authUrl : undefined;
}

interface CallbackParts {
  readonly runtime: Pick<AgentWork, "flush" | "inBackground">;
  readonly clients: McpClientsShape;
  /** Connects, once there are tokens. */
  readonly begin: (server: McpServer) => void;
}

/** Callbacks with one state share what becomes of the first, while that is handled (rule 2). */
export function handleCallback(
  request: Request,
  server: McpServer,
  parts: CallbackParts,
): Promise<McpOAuthCallbackResult> {
  const params = new URL(request.url).searchParams;
  const { nonce } = parseState(params.get("state"))!;
  const running = server.callbacks.get(nonce);
  if (running !== undefined) return running;
  const handled = handle(params, server, parts)
    .then((result) => {
      if (result.authSuccess) succeeded.set(server, nonce);
      return result;
    })
    .finally(() => server.callbacks.delete(nonce));
  server.callbacks.set(nonce, handled);
  return handled;
}

async function handle(
  params: URLSearchParams,
  server: McpServer,
  parts: CallbackParts,
): Promise<McpOAuthCallbackResult> {
  const serverId = server.id;
  const provider = server.provider();
  const check = await provider.checkState(params.get("state") ?? "");
  if (check.valid) return exchange(params, server, { ...parts, provider });
  return parseState(params.get("state"))?.nonce === succeeded.get(server)
    ? { serverId, authSuccess: true } // rule 2
    : { serverId, authSuccess: false, authError: check.error };
}

/** Uses up the state of a callback, which has been checked, and exchanges its code. */
async function exchange(
  params: URLSearchParams,
  server: McpServer,
  { runtime, clients, begin, provider }: CallbackParts & { readonly provider: OAuthProvider },
): Promise<McpOAuthCallbackResult> {
  const serverId = server.id;
  await provider.consumeState(params.get("state") ?? "");
  await runtime.flush(); // rule 1
  const refused = refusalOf(params);
  // The next request has the new tokens. Those that run are answered.
  const retire = (state: McpServerState): void => {
    if (server.connection !== undefined) server.retire(server.connection, state);
  };
  const failed = (error: string): McpOAuthCallbackResult => {
    const authError = errorText(error);
    server.storeAuth(null, provider.clientId ?? null);
    retire("failed");
    server.become("failed", authError);
    return { serverId, authSuccess: false, authError };
  };
  if (refused !== undefined) return failed(refused);
  const { signal, free } = server.limited(EXCHANGE_TIMEOUT_MS);
  try {
    const result = await runtime.inBackground(() =>
      clients.finishAuth(server.target(provider, signal), params),
    );
    if (result._tag === "Failed") return failed(result.message);
  } finally {
    free();
  }
  await provider.deleteCodeVerifier();
  server.consented = true;
  server.storeAuth(null, provider.clientId ?? null);
  await runtime.flush();
  retire("connecting");
  server.become("connecting");
  begin(server);
  return { serverId, authSuccess: true };
}

export async function answerCallback(
  request: Request,
  result: McpOAuthCallbackResult,
  config: OAuthCallbackConfig,
): Promise<Response> {
  if (config.customHandler !== undefined) return config.customHandler(result);
  const to = (where: string): URL => new URL(where, request.url);
  const target = result.authSuccess
    ? to(config.successRedirect ?? "/")
    : to(config.errorRedirect ?? "/");
  if (!result.authSuccess && config.errorRedirect !== undefined)
    target.searchParams.set("error", result.authError);
  return new Response(null, { status: FOUND, headers: { location: target.href } });
}

function refusalOf(params: URLSearchParams): string | undefined {
  const error = params.get("error");
  if (error !== null) return params.get("error_description") ?? error;
  return params.has("code") ? undefined : "The authorization server sent no code";
}
