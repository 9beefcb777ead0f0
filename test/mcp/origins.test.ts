/** An agent that is reached by another address than when its MCP server was registered. */
import { beforeAll, expect, test } from "vitest";
import { rpc } from "./kit.ts";
import { get, ready, useOAuth } from "./oauthKit.ts";

const oauth = useOAuth();
let server: ReturnType<typeof oauth.server>;
let elsewhere: string;
beforeAll(() => {
  server = oauth.server();
  elsewhere = oauth.url().replace("127.0.0.1", "localhost");
});

test("an authorization that is begun again from another origin comes back to that one", async () => {
  const here = await oauth.open("moved");
  const { authUrl } = await oauth.add(here);
  const denied = new URL(await server.consent(authUrl));
  denied.searchParams.delete("code");
  denied.searchParams.set("error", "access_denied");
  await get(denied.href);
  const there = await oauth.open("moved", elsewhere);
  const again = await oauth.add(there);
  expect(again.state).toBe("authenticating");
  const callback = await server.consent(again.authUrl);
  expect(callback).toContain(`${elsewhere}/`);
  await get(callback);
  await ready(there);
});

test("tokens are renewed from another origin by the registration that they are of", async () => {
  const { socket } = await oauth.consented("renewed");
  await rpc(socket, "closeIt");
  const there = await oauth.open("renewed", elsewhere);
  const { clients, access } = server.provider;
  const registered = clients.size;
  access.clear();
  expect(await oauth.add(there)).toEqual({ id: "secrets", state: "ready" });
  expect(clients.size).toBe(registered);
});
