/** Access tokens that have expired: they are renewed once for all calls, and nobody is asked. */
import { beforeAll, describe, expect, test } from "vitest";
import { rpc } from "./kit.ts";
import { useOAuth, type Servers } from "./oauthKit.ts";

const oauth = useOAuth();
const { consented } = oauth;
let provider: ReturnType<typeof oauth.server>["provider"];
beforeAll(() => ({ provider } = oauth.server()));

const stateOf = async (socket: Parameters<typeof rpc>[0]) =>
  (await rpc<Servers>(socket, "servers")).servers["secrets"]!.state;
const tokensOf = async (socket: Parameters<typeof rpc>[0]) =>
  (await rpc<string[]>(socket, "keys")).filter((key) => key.endsWith("/token")).length;

describe("an expired access token", () => {
  test("is renewed once by calls that are refused at the same time", async () => {
    const { socket } = await consented("at-once");
    for (let n = 0; n < 3; n++) {
      provider.access.clear();
      const before = provider.tokenRequests;
      const three = ["secret", "secret", "secret"];
      expect(await rpc(socket, "calls", "secrets", three)).toEqual(["42", "42", "42"]);
      expect(provider.tokenRequests).toBe(before + 1);
    }
    expect(await stateOf(socket)).toBe("ready");
    expect(await tokensOf(socket)).toBe(1);
  });

  test("is renewed once by two turns", async () => {
    const { socket } = await consented("turns");
    provider.access.clear();
    const before = provider.tokenRequests;
    const call = () => rpc(socket, "calls", "secrets", ["secret"]);
    expect(await Promise.all([call(), call()])).toEqual([["42"], ["42"]]);
    expect(provider.tokenRequests).toBe(before + 1);
    expect(await stateOf(socket)).toBe("ready");
  });

  test("whose refresh token is refused too asks for consent", async () => {
    const { socket } = await consented("revoked");
    provider.access.clear();
    provider.refresh.clear();
    const calls = await rpc<string[]>(socket, "calls", "secrets", ["secret", "secret"]);
    expect(calls).not.toContain("42");
    expect(await stateOf(socket)).toBe("authenticating");
    expect(await tokensOf(socket)).toBe(0);
  });

  test("stays when its authorization server can't answer for a moment", async () => {
    const { socket } = await consented("outage");
    for (const status of [503, 429]) {
      provider.access.clear();
      provider.outage = status;
      const [failed] = await rpc<string[]>(socket, "calls", "secrets", ["secret"]);
      expect(failed).toMatch(/can't renew it at the moment/);
      expect(await stateOf(socket)).toBe("ready");
      provider.outage = 0;
      expect(await rpc(socket, "calls", "secrets", ["secret"])).toEqual(["42"]);
    }
    expect(await stateOf(socket)).toBe("ready");
  });
});
