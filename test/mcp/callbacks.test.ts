/** Callbacks that come twice, or from strangers: what they change, and where they lead. */
import { beforeAll, describe, expect, test } from "vitest";
import type { McpServer } from "../../core/mcp/McpServer.ts";
import { serverOfCallback } from "../../core/mcp/oauthCallback.ts";
import { rpc } from "./kit.ts";
import { get, ready, useOAuth, type Servers } from "./oauthKit.ts";

const oauth = useOAuth();
const { add, consented, open } = oauth;
let server: ReturnType<typeof oauth.server>;
beforeAll(() => void (server = oauth.server()));

const stateOf = async (socket: Parameters<typeof rpc>[0]) =>
  (await rpc<Servers>(socket, "servers")).servers["secrets"]!.state;

describe("a callback of an authorized server", () => {
  test.each([
    ["that is repeated", (callback: string) => callback],
    ["of a stranger", (callback: string) => `${callback.replace(/\?.*/, "")}?state=x.secrets`],
  ])("%s leaves it able to ask for consent", async (what, made) => {
    const { socket, callback } = await consented(`able-${what.length}`);
    await get(made(callback));
    server.provider.access.clear();
    server.provider.refresh.clear();
    const [refused] = await rpc<string[]>(socket, "calls", "secrets", ["secret"]);
    expect(refused).toMatch(/Unauthorized/);
    const { servers } = await rpc<Servers>(socket, "servers");
    expect(servers["secrets"]).toMatchObject({
      state: "authenticating",
      auth_url: expect.stringMatching(/^http/) as string,
    });
    await get(await server.consent(servers["secrets"]!.auth_url!));
    expect((await rpc<Servers>(socket, "waited")).servers["secrets"]!.state).toBe("ready");
  });

  test("that was never asked for fails, and one that is repeated succeeds", async () => {
    const { socket, callback } = await consented("bogus");
    await rpc(socket, "redirects", { successRedirect: "/done", errorRedirect: "/failed" });
    const bogus = `${callback.replace(/\?.*/, "")}?state=bogus.secrets&code=evil`;
    expect(new URL((await get(bogus)).location!).pathname).toBe("/failed");
    expect(new URL((await get(callback)).location!).pathname).toBe("/done");
    expect(await stateOf(socket)).toBe("ready");
  });

  test("that can't be verified does not connect it", async () => {
    const { socket, callback } = await consented("closed");
    await rpc(socket, "closeIt");
    await get(`${callback.replace(/\?.*/, "")}?state=bogus.secrets&code=evil`);
    expect(await stateOf(socket)).toBe("not-connected");
  });
});

test("a callback that is repeated while its code is exchanged has the answer of the first", async () => {
  const socket = await open("repeated");
  await rpc(socket, "redirects", { successRedirect: "/done", errorRedirect: "/failed" });
  const callback = await server.consent((await add(socket)).authUrl);
  const { exchanged, release } = server.provider.hold();
  const { exchanges } = server.provider;
  const first = get(callback);
  await exchanged;
  const second = get(callback);
  // Both have reached the agent: this call comes after them.
  expect(await stateOf(socket)).toBe("authenticating");
  release();
  for (const answer of await Promise.all([first, second]))
    expect(new URL(answer.location!).pathname).toBe("/done");
  expect(server.provider.exchanges).toBe(exchanges + 1);
  await ready(socket);
});

test("a request to an agent that has stored an invalid callback URL is an ordinary one", () => {
  const stored = { row: { callback_url: "example.com/callback" } } as McpServer;
  const request = new Request("http://example.com/callback?state=nonce.secrets");
  expect(serverOfCallback(request, new Map([["secrets", stored]]))).toBeUndefined();
});
