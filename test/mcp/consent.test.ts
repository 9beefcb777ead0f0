/** Calls that run while one of them needs its user's consent. */
import { beforeAll, expect, test } from "vitest";
import { rpc } from "./kit.ts";
import { get, useOAuth, type Servers } from "./oauthKit.ts";

const oauth = useOAuth();
let server: ReturnType<typeof oauth.server>;
beforeAll(() => void (server = oauth.server()));

test("a call that needs consent ends no other: those that run are answered", async () => {
  for (const open of ["initialize", "notifications/initialized", "tools/list", "slow"])
    server.open.add(open);
  const socket = await oauth.open("beside");
  expect(await oauth.add(socket)).toEqual({ id: "secrets", state: "ready" });
  const held = server.hold();
  const slow = rpc(socket, "calls", "secrets", ["slow"]);
  await held.begun;
  expect(await rpc(socket, "calls", "secrets", ["secret"])).toEqual([expect.stringMatching(/Unauthorized/)]); // prettier-ignore
  const { servers } = await rpc<Servers>(socket, "servers");
  expect(servers["secrets"]!.state).toBe("authenticating");
  held.end();
  expect(await slow).toEqual(["done"]);
  // While the user is asked, what needs no consent is answered, and nobody is asked again.
  for (let n = 0; n < 20; n++)
    expect(await rpc(socket, "calls", "secrets", ["slow", "secret"])).toEqual(["done", expect.stringMatching(/Unauthorized/)]); // prettier-ignore
  const waiting = (await rpc<Servers>(socket, "servers")).servers["secrets"]!;
  expect(waiting).toMatchObject({
    state: "authenticating",
    auth_url: servers["secrets"]!.auth_url!,
  });
  await get(await server.consent(servers["secrets"]!.auth_url!));
  await rpc(socket, "waited");
  expect(await rpc(socket, "calls", "secrets", ["secret", "slow"])).toEqual(["42", "done"]);
});
