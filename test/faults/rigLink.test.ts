/** The fault rig's network: its links do what they are told to a connection, and nothing else. */
import { once } from "node:events";
import { connect as dial, createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { Random } from "../sim/rig/Random.ts";
import { Frames } from "./rig/Frames.ts";
import { Link } from "./rig/Link.ts";

const input = (n: number): string =>
  `HMSG _INBOX.a 3 $JS.ACK.agents_INBOX.s1.1.${n}.1.1.0 12 17\r\nNATS/1.0\r\n\r\nin\r\n${n}\r\n`;
const lease = "MSG _INBOX.b 4 $JS.ACK.KV_agents_LEASES.w.1.2.3.4.0 5\r\nlease\r\n";
const call = "MSG agents.call.1.Board.one 5 _INBOX.c.1 4\r\ncall\r\n";
const plain = "MSG _INBOX.c.1 2 0\r\n\r\n";

test("a stream is cut into the same frames however it arrives, and only inputs count as deliveries", () => {
  const parts = ['INFO {"a":1}\r\n', "PING\r\n", input(1), lease, call, plain, "+OK\r\n", input(2)];
  const bytes = Buffer.from(parts.join(""));
  for (let size = 1; size <= bytes.length; size++) {
    const frames = new Frames();
    const found = [];
    for (let at = 0; at < bytes.length; at += size)
      found.push(...frames.take(bytes.subarray(at, at + size)));
    expect(found.map((frame) => String(frame.bytes))).toEqual(parts);
    expect(found.filter(({ isDelivery }) => isDelivery).map((it) => String(it.bytes))).toEqual([
      input(1),
      input(2),
    ]);
  }
});

const ends: Array<() => unknown> = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** A link, the broker's end of its one connection, and what has arrived at the process's end. */
async function connected(between: "clients" | "servers" = "clients") {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection");
  const link = await Link.open([(server.address() as AddressInfo).port], between);
  const client = dial(Number(new URL(link.url).port), "127.0.0.1");
  client.on("error", () => undefined);
  ends.push(() => server.close(), () => link.close(), () => client.destroy()); // prettier-ignore
  const [upstream] = (await accepted) as [Socket];
  upstream.on("error", () => undefined);
  const arrived: Buffer[] = [];
  client.on("data", (bytes: Buffer) => arrived.push(bytes));
  const text = (): string => Buffer.concat(arrived).toString();
  return { link, upstream, text };
}

const arrives = (text: () => string, check: (text: string) => boolean): Promise<unknown> =>
  pollUntil("it arrives", () => check(text()) || { done: false, saw: text() });

test("inputs are duplicated whole, and everything else arrives once and in order", async () => {
  const { link, upstream, text } = await connected();
  link.disturb({ random: new Random(1), twiceShare: 1, lateShare: 0, lateMsMax: 5 });
  upstream.write(input(1) + call + plain);
  await arrives(text, (it) => it.length === 2 * input(1).length + call.length + plain.length);
  expect(text().startsWith(input(1) + call + plain)).toBe(true);
  expect(text().endsWith(input(1))).toBe(true);
  expect(link.repeated).toBe(1);
});

test("a delayed input is overtaken by later ones, and only then counted", async () => {
  const { link, upstream, text } = await connected();
  link.disturb({ random: new Random(1), twiceShare: 0, lateShare: 1, lateMsMax: 5 });
  upstream.write(input(1));
  await arrives(text, (it) => it === input(1));
  expect(link.overtaken).toBe(0);
  upstream.write(input(2) + call);
  await arrives(text, (it) => it === input(1) + call + input(2));
  link.disturb({ random: new Random(1), twiceShare: 0, lateShare: 1, lateMsMax: 2_000 });
  upstream.write(input(3));
  // The next is sent at once when the one before it has been held back.
  await pollUntil("the link has the input", () => link.held === 1);
  link.disturb({ random: new Random(1), twiceShare: 0, lateShare: 0, lateMsMax: 1 });
  upstream.write(input(4));
  await arrives(text, (it) => it.endsWith(input(4) + input(3)));
  expect(link.overtaken).toBe(1);
});

test("a cut link passes nothing, and nothing between servers is mistaken for an input", async () => {
  const { link, upstream, text } = await connected("servers");
  link.disturb({ random: new Random(1), twiceShare: 1, lateShare: 0, lateMsMax: 1 });
  upstream.write(input(1));
  await arrives(text, (it) => it === input(1));
  link.cut();
  upstream.write(call);
  await pollUntil("it is swallowed", () => link.swallowed === call.length);
  expect(text()).toBe(input(1));
  const closed = once(upstream, "close");
  link.heal();
  await closed;
});
