/** An outgoing webhook's address is checked after the look-up, and again once connected. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { outgoingBy } from "../../services/node/NodeOutgoing.ts";
import { isPublicAddress } from "../../services/node/PublicAddress.ts";

const resolved: Array<{ address: string; family: number }> = [];
/** Addresses that count as public, how often: a resolver's lie holds for one question. */
const trusted = new Map<string, number>();
const { post: postBy } = outgoingBy({
  lookup: (_name, _options, answer) => answer(null, [...resolved]),
  isPublic: (address) => {
    const left = trusted.get(address) ?? 0;
    if (left > 0) trusted.set(address, left - 1);
    return left > 0 || isPublicAddress(address);
  },
});

let server: Server;
let port: number;
const seen: string[] = [];
beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push(request.headers.host ?? "");
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => server.close());
beforeEach(() => {
  resolved.length = seen.length = 0;
  trusted.clear();
});
const post = (allowPrivate = false) =>
  postBy({
    url: `http://rebind.test:${port}/`,
    headers: {},
    body: "{}",
    allowPrivate,
    timeoutMs: 5000,
  });
const v4 = (address: string) => ({ address, family: 4 });

test("a name that resolves to a private address is refused", async () => {
  resolved.push(v4("127.0.0.1"));
  expect(await post()).toMatchObject({ _tag: "Refused" });
  expect(seen).toEqual([]);
});

test("one private address among public ones is enough to refuse", async () => {
  resolved.push(v4("1.1.1.1"), v4("127.0.0.1"));
  expect(await post()).toMatchObject({ _tag: "Refused" });
  expect(seen).toEqual([]);
});

test("a peer with a private address receives no byte of the request", async () => {
  resolved.push(v4("127.0.0.1"));
  trusted.set("127.0.0.1", 1);
  expect(await post()).toMatchObject({ _tag: "Refused" });
  expect(trusted.get("127.0.0.1")).toBe(0);
  expect(seen).toEqual([]);
});

test("the connection uses the checked address", async () => {
  resolved.push(v4("127.0.0.1"));
  trusted.set("127.0.0.1", 2);
  expect(await post()).toEqual({ _tag: "Answered", status: 200 });
  expect(seen).toEqual([`rebind.test:${port}`]);
});

test("a name without an address is refused", async () => {
  expect(await post()).toMatchObject({ _tag: "Refused" });
});
