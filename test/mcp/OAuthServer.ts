/**
 * An MCP server that wants OAuth, made with the official SDK's server side: dynamic registration,
 * PKCE, codes that work once, tokens that can be revoked. It consents by itself: the browser is
 * sent straight back.
 */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import {
  InvalidGrantError,
  InvalidTokenError,
} from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import type {
  AuthorizationParams,
  OAuthServerProvider,
} from "@modelcontextprotocol/sdk/server/auth/provider.js";
import { getOAuthProtectedResourceMetadataUrl, mcpAuthRouter } from "@modelcontextprotocol/sdk/server/auth/router.js"; // prettier-ignore
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type {
  OAuthClientInformationFull,
  OAuthTokens,
} from "@modelcontextprotocol/sdk/shared/auth.js";
import express from "express";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Lifetime of access tokens; tests revoke them, and don't wait. */
const TOKEN_SECONDS = 3600;

class Provider implements OAuthServerProvider {
  readonly clients = new Map<string, OAuthClientInformationFull>();
  readonly codes = new Map<string, AuthorizationParams>();
  readonly access = new Set<string>();
  readonly refresh = new Set<string>();
  exchanges = 0;
  /** Requests for tokens, of either kind. */
  tokenRequests = 0;
  /** The status with which the token endpoint answers instead; 0: none. */
  outage = 0;
  held: { readonly begin: () => void; readonly end: Promise<void> } | undefined;
  readonly clientsStore = {
    getClient: (id: string) => this.clients.get(id),
    registerClient: (
      client: Omit<OAuthClientInformationFull, "client_id" | "client_id_issued_at">,
    ) => {
      const full = { ...client, client_id: randomUUID(), client_id_issued_at: 1 };
      this.clients.set(full.client_id, full);
      return full;
    },
  };

  async authorize(
    _client: OAuthClientInformationFull,
    params: AuthorizationParams,
    response: express.Response,
  ): Promise<void> {
    const code = randomUUID();
    this.codes.set(code, params);
    const back = new URL(params.redirectUri);
    back.searchParams.set("code", code);
    if (params.state !== undefined) back.searchParams.set("state", params.state);
    response.redirect(back.href);
  }
  async challengeForAuthorizationCode(
    _client: OAuthClientInformationFull,
    code: string,
  ): Promise<string> {
    const params = this.codes.get(code);
    if (params === undefined) throw new InvalidGrantError("no such code");
    return params.codeChallenge;
  }
  async exchangeAuthorizationCode(
    _client: OAuthClientInformationFull,
    code: string,
  ): Promise<OAuthTokens> {
    this.exchanges++;
    this.held?.begin();
    await this.held?.end;
    if (!this.codes.delete(code)) throw new InvalidGrantError("no such code");
    return this.issue();
  }
  async exchangeRefreshToken(
    _client: OAuthClientInformationFull,
    token: string,
  ): Promise<OAuthTokens> {
    this.held?.begin();
    await this.held?.end;
    if (!this.refresh.delete(token)) throw new InvalidGrantError("no such refresh token");
    return this.issue();
  }
  async verifyAccessToken(token: string) {
    if (!this.access.has(token)) throw new InvalidTokenError("not valid");
    return {
      token,
      clientId: "any",
      scopes: [],
      expiresAt: Math.floor(Date.now() / 1000) + TOKEN_SECONDS,
    };
  }
  /** Exchanges of codes and renewals wait for `release`; `exchanged` resolves when one waits. */
  hold() {
    const { began, begun, end, ended } = latch();
    this.held = { begin: began, end: ended };
    return { exchanged: begun, release: end };
  }
  private issue(): OAuthTokens {
    const tokens = { access_token: randomUUID(), refresh_token: randomUUID() };
    this.access.add(tokens.access_token);
    this.refresh.add(tokens.refresh_token);
    return { ...tokens, token_type: "Bearer", expires_in: TOKEN_SECONDS };
  }
}

const toolOf = (body: unknown): string =>
  (body as { readonly params: { readonly name: string } }).params.name;

function latch() {
  let began = (): void => undefined;
  let end = (): void => undefined;
  const begun = new Promise<void>((resolve) => (began = resolve));
  const ended = new Promise<void>((resolve) => (end = resolve));
  return { began, begun, end, ended };
}

export async function startOAuthServer() {
  const app = express();
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = new URL(`http://localhost:${(server.address() as AddressInfo).port}`);
  const url = new URL("/mcp", base);
  const provider = new Provider();
  app.use("/token", (_request, response, next) => {
    provider.tokenRequests++;
    if (provider.outage === 0) return next();
    response.status(provider.outage).send("try again later");
  });
  app.use(
    mcpAuthRouter({ provider, issuerUrl: base, resourceServerUrl: url, resourceName: "secrets" }),
  );
  const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(url);
  /** What wants no consent: `initialize` of a server that greets everyone, or a tool. */
  const open = new Set<string>();
  /** Tokens are refused, too. */
  const demands = { always: false };
  let slow = latch();
  const consented = requireBearerAuth({ verifier: provider, resourceMetadataUrl });
  app.all("/mcp", express.json(), (request, response, next) => {
    const { method } = (request.body ?? {}) as { readonly method?: string };
    if (method !== undefined && open.has(method)) return next();
    if (method === "tools/call" && open.has(toolOf(request.body))) return next();
    if (!demands.always || request.headers.authorization === undefined)
      return consented(request, response, next);
    const scope = `Bearer error="insufficient_scope", scope="more", resource_metadata="${resourceMetadataUrl}"`;
    response.status(403).set("WWW-Authenticate", scope).json({ error: "insufficient_scope" });
  });
  app.all("/mcp", async (request, response) => {
    const mcp = new McpServer({ name: "secrets", version: "1" }, { instructions: "Ask me." });
    mcp.registerTool("secret", { description: "tells it" }, () => ({
      content: [{ type: "text", text: "42" }],
    }));
    mcp.registerTool("slow", { description: "answers when it may" }, async () => {
      slow.began();
      await slow.ended;
      return { content: [{ type: "text", text: "done" }] };
    });
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined } as never);
    await mcp.connect(transport as never);
    await transport.handleRequest(request, response, request.body);
  });
  return {
    url: url.href,
    provider,
    open,
    demands,
    /** Calls of `slow` wait for `end`; `begun` resolves when one waits. */
    hold: () => (slow = latch()),
    /** What a browser does: opens the address, and says where it is sent back to. */
    consent: async (authUrl: string): Promise<string> => {
      const response = await fetch(authUrl, { redirect: "manual" });
      const location = response.headers.get("location");
      if (location === null)
        throw new Error(`no way back: ${response.status} ${await response.text()}`);
      return location;
    },
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
