/** Servers that are replaced or removed during OAuth: what that stores afterwards. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startOAuthServer } from "./OAuthServer.ts";
import { rpc } from "./kit.ts";
import { get, useOAuth } from "./oauthKit.ts";

const oauth = useOAuth();
const { add, consented, open } = oauth;
let server: ReturnType<typeof oauth.server>;
let other: ReturnType<typeof oauth.server>;
beforeAll(async () => {
  server = oauth.server();
  other = await startOAuthServer();
});
afterAll(() => other?.stop());

type Socket = Parameters<typeof rpc>[0];
const replace = (socket: Socket) => rpc(socket, "replaceBy", other.url);

test("a code that is exchanged while another URL replaces its server changes nothing of the new one", async () => {
  const socket = await open("exchanged");
  const callback = await server.consent((await add(socket)).authUrl);
  const { exchanged, release } = server.provider.hold();
  const answer = get(callback);
  await exchanged;
  await replace(socket);
  release();
  await answer;
  expect(await rpc(socket, "stored")).toEqual([
    { server_url: other.url, client_id: null, auth_url: null },
  ]);
  expect(await rpc(socket, "keys")).toEqual([]);
});

test.each([
  ["removed", (socket: Socket) => rpc(socket, "remove", "secrets")],
  ["replaced at another URL", replace],
])("a token that is renewed while its server is %s is not stored", async (what, end) => {
  const { socket } = await consented(`renewed-${what.length}`);
  server.provider.access.clear();
  const { exchanged, release } = server.provider.hold();
  const call = rpc<string[]>(socket, "calls", "secrets", ["secret"]);
  await exchanged;
  await end(socket);
  release();
  expect(await call).toEqual([expect.stringMatching(/^McpRequestFailed|^Error/)]);
  expect(await rpc(socket, "keys")).toEqual([]);
});
