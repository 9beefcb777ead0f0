/** OAuth with an MCP server of the SDK's own server side: from the refusal to the tools. */
import { beforeAll, describe, expect, test } from "vitest";
import { STATE_TTL_MS, StoredOAuthProvider } from "../../core/mcp/OAuthProvider.ts";
import type { AgentStorage } from "../../core/database/AgentStorage.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { pollUntil } from "../kit/poll.ts";
import type { TestSocket } from "../system/kit.ts";
import { startOAuthServer } from "./OAuthServer.ts";
import { rpc, untilMcp } from "./kit.ts";
import { get, ready, useOAuth, type Added } from "./oauthKit.ts";
import type { ToolAgent } from "./toolModule.ts";

const oauth = useOAuth();
const { open, add } = oauth;
let server: ReturnType<typeof oauth.server>;
let system: { readonly url: string };
beforeAll(() => {
  server = oauth.server();
  system = { url: oauth.url() };
});

/** Nobody is left to answer it. */
const abort = (socket: TestSocket) =>
  socket.send({ type: "rpc", id: "abort", method: "abort", args: [] });

describe("a server that requires OAuth", () => {
  test("is authenticating, with its authorization URL; after the callback its tools are available", async () => {
    const socket = await open("flow");
    const added = await add(socket);
    expect(added).toMatchObject({ id: "secrets", state: "authenticating" });
    const authUrl = new URL(added.authUrl);
    expect(authUrl.searchParams.get("code_challenge_method")).toBe("S256");
    expect(authUrl.searchParams.get("redirect_uri")).toBe(
      `${system.url}/agents/o-auth-agent/flow/callback`,
    );
    const [state] = await rpc<Array<{ auth_url: string; client_id: string }>>(socket, "rows");
    expect(state).toMatchObject({
      auth_url: added.authUrl,
      client_id: expect.any(String) as string,
    });
    // Asked again, it is the same authorization.
    expect(await add(socket)).toEqual(added);

    const callback = await server.consent(added.authUrl);
    expect(await get(callback)).toMatchObject({ status: 302, location: `${system.url}/` });
    const mcp = await ready(socket);
    expect(mcp.tools.map(({ name }) => name)).toEqual(["secret", "slow"]);
    expect(mcp.servers["secrets"]).toMatchObject({ auth_url: null, instructions: "Ask me." });
    const result = await rpc<{ content: unknown[] }>(socket, "call", "secrets", "secret", {});
    expect(result.content).toEqual([{ type: "text", text: "42" }]);

    // The keys that the reference uses, and no verifier or state that is over.
    const { client_id } = (await rpc<Array<{ client_id: string }>>(socket, "rows"))[0]!;
    expect(await rpc(socket, "keys")).toEqual(
      [
        `/flow/secrets/${client_id}/client_info/`,
        `/flow/secrets/${client_id}/token`,
        "/flow/secrets/oauth_discovery",
      ].toSorted(),
    );

    // Seen twice (a browser that repeats): exchanged once, and told so.
    const { exchanges } = server.provider;
    expect(await get(callback)).toMatchObject({ status: 302 });
    expect(server.provider.exchanges).toBe(exchanges);

    await rpc(socket, "remove", "secrets");
    expect(await rpc(socket, "keys")).toEqual([]);
  });

  test("is authenticating if it accepts connections and requires consent only for its lists", async () => {
    for (const method of ["initialize", "notifications/initialized"]) server.open.add(method);
    const socket = await open("greeted");
    const added = await add(socket);
    expect(added).toMatchObject({
      state: "authenticating",
      authUrl: expect.stringMatching(/^http/),
    });
    await get(await server.consent(added.authUrl));
    expect((await ready(socket)).tools.map(({ name }) => name)).toEqual(["secret", "slow"]);
  });

  test("asks its user for an additional scope in mid-session, and fails if it requires consent again at once", async () => {
    const socket = await open("scopes");
    const first = (await add(socket)).authUrl;
    await get(await server.consent(first));
    await ready(socket);
    server.demands.always = true;
    await expect(rpc(socket, "call", "secrets", "secret", {})).rejects.toThrow();
    const asks = await untilMcp(socket, "it asks for consent", ({ servers }) => ![null, undefined, first].includes(servers["secrets"]?.auth_url)); // prettier-ignore
    const authUrl = asks.servers["secrets"]!.auth_url!;
    expect(new URL(authUrl).searchParams.get("scope")).toBe("more");
    await get(await server.consent(authUrl));
    const failed = await untilMcp(socket, "it has failed", ({ servers }) => servers["secrets"]?.state === "failed"); // prettier-ignore
    expect(failed.servers["secrets"]!.error).toMatch(/although its user has just authorized it/);
  });

  test("waits for its user across a restart of the agent, and the callback still works", async () => {
    const first = await open("restarted");
    const { authUrl } = await add(first);
    abort(first);
    const second = await open("restarted");
    const waits = await rpc<ReturnType<ToolAgent["servers"]>>(second, "servers");
    expect(waits.servers["secrets"]?.state).toBe("authenticating");
    await get(await server.consent(authUrl));
    await ready(second);
    // Tokens are kept: no user is needed at the next wake.
    abort(second);
    const mcp = await rpc<ReturnType<ToolAgent["servers"]>>(await open("restarted"), "waited");
    expect(mcp.servers["secrets"]?.state).toBe("ready");
  });

  test("that is added again has the same authorization URL for ten minutes, and then a new one", async () => {
    const socket = await open("expired");
    const first = await add(socket);
    expect(await add(socket)).toEqual(first);
    await rpc(socket, "age", 601);
    await get(await server.consent(first.authUrl));
    const second = await add(socket);
    expect(second.state).toBe("authenticating");
    expect(second.authUrl).not.toBe(first.authUrl);
    await get(await server.consent(second.authUrl));
    await ready(socket);
  });

  test("that is added again while its code is exchanged is not asked for another consent", async () => {
    const socket = await open("exchanging");
    const { authUrl } = await add(socket);
    const back = await server.consent(authUrl);
    const { exchanged, release } = server.provider.hold();
    const callback = get(back);
    try {
      await exchanged;
      expect(await add(socket)).toEqual({ id: "secrets", state: "authenticating", authUrl });
    } finally {
      release();
    }
    await callback;
    await ready(socket);
  });

  test("refreshes an expired token, and asks for consent if it can't", async () => {
    const socket = await open("renewed");
    const { authUrl } = await add(socket);
    await get(await server.consent(authUrl));
    await ready(socket);
    server.provider.access.clear();
    const result = await rpc<{ content: unknown[] }>(socket, "call", "secrets", "secret", {});
    expect(result.content).toEqual([{ type: "text", text: "42" }]);
    server.provider.access.clear();
    server.provider.refresh.clear();
    await expect(rpc(socket, "call", "secrets", "secret", {})).rejects.toThrow();
    const mcp = await untilMcp(socket, "it asks for consent again", ({ servers }) => servers["secrets"]?.state === "authenticating" && servers["secrets"].auth_url !== null && servers["secrets"].auth_url !== authUrl); // prettier-ignore
    await get(await server.consent(mcp.servers["secrets"]!.auth_url!));
    const again = await rpc<ReturnType<ToolAgent["servers"]>>(socket, "waited");
    expect(again.servers["secrets"]?.state).toBe("ready");
  });
});

describe("what OAuth has stored of a server", () => {
  test("is moved and deleted with it in a sub-agent, too", async () => {
    const socket = await open("parent");
    const below = <A>(method: string, ...args: unknown[]) =>
      rpc<A>(socket, "below", method, ...args);
    const how = { callbackHost: system.url };
    const { id, authUrl } = await below<Added>("add", "Secrets", server.url, how);
    await get(await server.consent(authUrl));
    await pollUntil("it is ready", async () => {
      const { servers } = await below<ReturnType<ToolAgent["servers"]>>("servers");
      return servers[id]?.state === "ready" || { done: false, saw: servers };
    });
    const named = await below("add", "Secrets", server.url, { ...how, id: "secrets" });
    expect(named).toEqual({ id: "secrets", state: "ready" });
    const keys = await below<string[]>("keys");
    expect(keys.filter((key) => key.endsWith("/token"))).toHaveLength(1);
    expect(keys.filter((key) => !key.startsWith("/kid/secrets/"))).toEqual([]);
    await below("remove", "secrets");
    expect(await below("keys")).toEqual([]);
  });

  test("is deleted when another URL replaces it", async () => {
    const other = await startOAuthServer();
    try {
      const socket = await open("replaced");
      const callback = `${system.url}/agents/o-auth-agent/replaced/callback`;
      const register = (url: string) => rpc<Added>(socket, "register", url, callback);
      expect((await register(server.url)).authUrl).toContain(new URL(server.url).origin);
      const keys = await rpc<string[]>(socket, "keys");
      expect((await register(other.url)).authUrl).toContain(new URL(other.url).origin);
      const left = await rpc<string[]>(socket, "keys");
      expect(left).toHaveLength(keys.length);
      expect(left.filter((key) => keys.includes(key))).toEqual(["/replaced/secrets/oauth_discovery"]); // prettier-ignore
    } finally {
      await other.stop();
    }
  });
});

describe("a callback", () => {
  test("with an unknown state changes nothing, and does not reach onRequest on the callback's URL", async () => {
    const socket = await open("forged");
    const { authUrl } = await add(socket);
    await rpc(socket, "redirects", { successRedirect: "/done", errorRedirect: "/failed" });
    const before = await rpc(socket, "servers");
    const base = `${system.url}/agents/o-auth-agent/forged/callback`;
    const forged = await get(`${base}?code=stolen&state=guess.secrets`);
    expect(forged.status).toBe(302);
    expect(new URL(forged.location!).pathname).toBe("/failed");
    expect(new URL(forged.location!).searchParams.get("error")).toMatch(/not known/);
    expect(await rpc(socket, "servers")).toEqual(before);
    // Not a callback at all: another path, another server, no state.
    for (const url of [`${base}/x?state=guess.secrets`, `${base}?state=guess.absent`, base])
      expect((await get(url)).text).toBe("onRequest");
    // The real one is still good.
    expect((await get(await server.consent(authUrl))).location).toBe(`${system.url}/done`);
    await ready(socket);
  });

  test("with a refusal marks the server as failed, with a readable text", async () => {
    const socket = await open("refused");
    const { authUrl } = await add(socket);
    await rpc(socket, "redirects", { errorRedirect: "/failed" });
    const state = new URL(authUrl).searchParams.get("state")!;
    const base = `${system.url}/agents/o-auth-agent/refused/callback?state=${encodeURIComponent(state)}`;
    const answer = await get(
      `${base}&error=access_denied&error_description=no%07%0A${"x".repeat(600)}`,
    );
    expect(new URL(answer.location!).searchParams.get("error")).toMatch(/^no x{497}\.\.\.$/);
    const mcp = await rpc<ReturnType<ToolAgent["servers"]>>(socket, "servers");
    expect(mcp.servers["secrets"]).toMatchObject({ state: "failed", auth_url: null });
    // Used up.
    expect(new URL((await get(`${base}&code=late`)).location!).searchParams.get("error")).toMatch(/used already/); // prettier-ignore
    // And it can be begun anew.
    expect(await add(socket)).toMatchObject({ state: "authenticating" });
  });
});

describe("stored OAuth data", () => {
  const make = () => {
    const values = new Map<string, unknown>();
    const storage = {
      get: async (key: string) => values.get(key),
      put: async (key: string, value: unknown) => void values.set(key, value),
      delete: async (keys: string | string[]) =>
        [keys].flat().filter((key) => values.delete(key)).length,
      list: async ({ prefix = "" }) =>
        new Map([...values].filter(([key]) => key.startsWith(prefix))),
    } as unknown as AgentStorage;
    const time = new VirtualTime({ seed: 1 });
    const provider = new StoredOAuthProvider(storage, {
      clientName: "a",
      callbackUrl: "https://x.example/cb",
      time,
    });
    provider.serverId = "s";
    return { provider, time, values };
  };

  test("accepts a state once, and for ten minutes", async () => {
    const { provider, time } = make();
    const state = await provider.state();
    expect(state).toMatch(/^[\w-]+\.s$/);
    expect(await provider.checkState(state)).toEqual({ valid: true, serverId: "s" });
    await provider.consumeState(state);
    expect(await provider.checkState(state)).toMatchObject({ valid: false });
    const late = await provider.state();
    await time.advance(STATE_TTL_MS);
    expect(await provider.checkState(late)).toMatchObject({ valid: true });
    await time.advance(1);
    expect(await provider.checkState(late)).toEqual({
      valid: false,
      error: "The state has expired",
    });
  });

  test("keeps a verifier for each of two concurrent authorizations", async () => {
    const { provider } = make();
    await provider.saveClientInformation({ client_id: "c" });
    const first = await provider.state();
    await provider.saveCodeVerifier("one");
    await provider.state();
    await provider.saveCodeVerifier("two");
    await provider.consumeState(first);
    expect(await provider.codeVerifier()).toBe("one");
  });

  test("does not accumulate unused states", async () => {
    const { provider, values } = make();
    for (let n = 0; n < 100; n++) await provider.state();
    expect([...values.keys()].filter((key) => key.includes("/state/"))).toHaveLength(16);
  });

  test("never contains an executable URL as an authorization URL", () => {
    const { provider } = make();
    expect(() => provider.redirectToAuthorization(new URL("javascript:alert(1)"))).toThrow(
      TypeError,
    );
    expect(provider.authUrl).toBeUndefined();
  });

  test("is of bounded size, whatever the authorization server answers", async () => {
    const { provider, values } = make();
    const long = "x".repeat(300_000);
    const url = new URL(`https://auth.example/?client_id=${long}`);
    expect(() => provider.redirectToAuthorization(url)).toThrow(/more than 16384 characters/);
    const answers = [
      provider.saveDiscoveryState({ long }),
      provider.saveClientInformation({ client_id: long }),
      provider.saveTokens({ access_token: long }),
    ];
    for (const answer of answers) await expect(answer).rejects.toThrow(/the limit is 262144/);
    expect([provider.authUrl, provider.clientId, values.size]).toEqual([undefined, undefined, 0]);
  });
});
