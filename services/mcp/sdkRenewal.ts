/**
 * `fetch` to an MCP server that renews an expired access token and sends the request again. The SDK
 * would renew one for each refused request, and an authorization server that rotates refresh tokens
 * accepts each of them once.
 *
 * 1. A server has one renewal at a time (`McpTarget.renewing`); all refused requests share it.
 * 2. A request that was refused with a token that is no longer the stored one is sent again with
 *    the stored one.
 * 3. A renewal asks nobody. If the refresh token is refused, the request's 401 goes to the SDK,
 *    which begins an authorization.
 * 4. An authorization server that can't answer has refused nothing: the request fails, and the
 *    tokens stay.
 * 5. A renewal has connections of its own, so that it ends when those of the request are closed:
 *    the refresh token may be used up.
 */
import {
  auth as authorize,
  createFetchWithInit,
  SdkErrorCode,
  SdkHttpError,
  type OAuthClientProvider,
} from "@modelcontextprotocol/client";
import type { McpTarget } from "../../core/mcp/McpClients.ts";
import type { OAuthProvider } from "../../core/mcp/OAuthProvider.ts";
import { withMethods } from "../../core/mcp/withMethods.ts";
import type { FetchLike, Wire } from "./guardedFetch.ts";

/** Calls wait for it, whose default limit is a minute. */
const RENEWAL_TIMEOUT_MS = 30_000;
const UNAUTHORIZED = 401;
const TOO_MANY_REQUESTS = 429;
const SERVER_ERROR = 500;
/** The log has the cause: a caller must not learn what an address of the network answers. */
const UNANSWERED =
  "The server's access token has expired, and its authorization server can't renew it at the moment";

/** `fetch` sends the requests of one connection to `target`. */
export function renewedFetch(target: McpTarget, fetch: FetchLike, wire: Wire): FetchLike {
  if (target.auth.redirectUrl === undefined) return fetch; // Then it has no tokens.
  return async (url, init) => {
    const response = await fetch(url, init);
    if (response.status !== UNAUTHORIZED) return response;
    const refused = tokenOf(target, url, init);
    const token = refused === undefined ? undefined : await newerToken(target, refused, wire);
    if (token === undefined) return response;
    await response.body?.cancel();
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${token}`);
    const again = await fetch(url, { ...init, headers });
    if (again.status !== UNAUTHORIZED || init?.method !== "POST") return again;
    await again.body?.cancel();
    // The SDK would renew the new token, too.
    throw new SdkHttpError(SdkErrorCode.ClientHttpAuthentication, "The server refuses a token that was just renewed", { status: again.status, statusText: again.statusText }); // prettier-ignore
  };
}

/** The token with which a message was sent to the server itself. */
function tokenOf(
  target: McpTarget,
  url: string | URL,
  init: RequestInit | undefined,
): string | undefined {
  if (new URL(url).origin !== new URL(target.url).origin) return undefined;
  const headers = new Headers(init?.headers);
  const isMessage =
    init?.method === "POST"
      ? headers.get("content-type") === "application/json"
      : headers.get("accept") === "text/event-stream";
  return isMessage ? /^Bearer (.+)$/.exec(headers.get("authorization") ?? "")?.[1] : undefined;
}

/** Undefined: only the server's user can help. Rejects by rule 4. */
async function newerToken(
  target: McpTarget,
  refused: string,
  wire: Wire,
): Promise<string | undefined> {
  const stored = await target.auth.tokens();
  if (stored !== undefined && stored["access_token"] !== refused) return tokenIn(stored); // rule 2
  if (stored?.["refresh_token"] === undefined) return undefined;
  await target.renewing(() => renew(target, refused, wire)); // rule 1
  const token = tokenIn(await target.auth.tokens());
  return token === refused ? undefined : token;
}

const tokenIn = (tokens: Awaited<ReturnType<OAuthProvider["tokens"]>>): string | undefined =>
  tokens === undefined ? undefined : String(tokens["access_token"]);

/** Stores newer tokens, or removes refused ones. */
async function renew(target: McpTarget, refused: string, wire: Wire): Promise<void> {
  const { auth, url, headers, skipIssuerMetadataValidation } = target;
  const isRefused = async (): Promise<boolean> => tokenIn(await auth.tokens()) === refused;
  if (!(await isRefused())) return; // rule 2
  const own = wire.open(url, () => undefined); // rule 5
  const signal = AbortSignal.timeout(RENEWAL_TIMEOUT_MS);
  let outage: string | undefined;
  const fetch: FetchLike = async (to, init) => {
    const answer = own.fetch(to, { ...init, signal });
    if (!isRefresh(init)) return answer;
    try {
      const { status } = await answer;
      outage = status >= SERVER_ERROR || status === TOO_MANY_REQUESTS ? `status ${status}` : undefined; // prettier-ignore
    } catch (error) {
      outage = error instanceof Error ? error.message : String(error);
    }
    return answer;
  };
  const silent = withMethods(auth, {
    state: () => Promise.reject(new ConsentNeeded()), // rule 3
    clientInformation: (use) => auth.clientInformation({ ...use, renews: true }),
    invalidateCredentials: async (scope) => {
      if (outage === undefined && (await isRefused())) await auth.invalidateCredentials(scope);
    },
  });
  try {
    const fetchFn = createFetchWithInit(fetch, { headers: { ...headers } });
    // The shapes agree, as in `sdkConnection`.
    const provider = silent as unknown as OAuthClientProvider;
    await authorize(provider, { serverUrl: url, fetchFn, skipIssuerMetadataValidation });
  } catch (error) {
    if (outage !== undefined) {
      wire.unreachable(url, `its access token can't be renewed: ${outage}`);
      throw new Error(UNANSWERED, { cause: error }); // rule 4
    }
    if (!(error instanceof ConsentNeeded)) throw error;
  } finally {
    own.close();
  }
}

/** The next thing that an authorization would do is to ask the user. */
class ConsentNeeded extends Error {}

const isRefresh = (init: RequestInit | undefined): boolean =>
  init?.body instanceof URLSearchParams && init.body.get("grant_type") === "refresh_token";
