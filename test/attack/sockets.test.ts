/** Hostile WebSocket clients: each is refused with a reason and costs others little. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { RawSocket } from "./RawSocket.ts";

const MODULE = fileURLToPath(new URL("./socketModule.ts", import.meta.url));
/** Starts and polls on a busy machine. */
const TEST_TIMEOUT_MS = 300_000;
const POLL_TIMEOUT_MS = 90_000;

let installation: Installation;
let host: AgentsProcess;
let gateway: AgentsProcess;
let port: number;
beforeAll(async () => {
  installation = await Installation.start({ shards: 4, module: MODULE });
  host = await installation.startHost("host-1");
  ({ gateway } = installation);
  await Promise.all([host.ready(), gateway.ready()]);
  port = Number(new URL(gateway.url).port);
}, TEST_TIMEOUT_MS);
afterAll(() => installation?.stop(), TEST_TIMEOUT_MS);

let told: ReadonlyArray<number>;
beforeEach(() => (told = [host.lines.length, gateway.lines.length]));
/** What the processes have logged in this test. */
const logged = () => [...host.lines.slice(told[0]), ...gateway.lines.slice(told[1])];

const open = (name: string, query = ""): Promise<RawSocket> =>
  RawSocket.open(port, `/agents/room/${name}${query}`);
const calling = (method: string, ...args: ReadonlyArray<unknown>): string =>
  JSON.stringify({ type: "rpc", id: method, method, args });
const answers = (method: string) => (text: string) => text.includes(`"rpc","id":"${method}"`);

test("a connection id of more than 256 characters is refused, and the agent's code is not asked", async () => {
  for (let n = 0; n < 20; n += 1) {
    using socket = await open("ids", `?_pk=${"p".repeat(257)}`);
    expect(socket.client.text).toMatch(/^HTTP\/1.1 400 [^]*_pk has at most 256 characters/);
  }
  using fits = await open("ids", `?_pk=${"p".repeat(256)}`);
  expect(fits.client.text).toMatch(/^HTTP\/1.1 101 /);
  expect(logged()).toEqual([]);
});

const DEEP = "[".repeat(400_000);
test.each([
  ["a state", `{"type":"cf_agent_state","state":${DEEP}${"]".repeat(400_000)}}`],
  ["a state without an end", `{"type":"cf_agent_state","state":${DEEP}"`],
  ["a call", `{"type":"rpc","id":"a","method":"add","args":[${DEEP}${"]".repeat(400_000)}]}`],
])("%s with 400,000 levels closes its socket with 1007", async (_, text) => {
  using neighbour = await open("neighbour");
  using socket = await open("deep");
  socket.send(text);
  expect(await socket.untilClosed()).toBe("1007 Nested more than 1000 levels deep");
  neighbour.send("hello");
  await neighbour.until("the neighbour is answered", (said) => said === "hello");
  expect(logged()).toEqual([]);
}, TEST_TIMEOUT_MS); // prettier-ignore

const ASKED = 500;
test("a stream that is asked for 500 times at once is not read 500 times", async () => {
  using socket = await open("streams");
  socket.send(calling("write", "s", 20, 50_000));
  await socket.until("it is written", answers("write"));
  const ask = JSON.stringify({ type: "cf_agent_stream", id: "r", key: "s" });
  socket.send(...Array.from({ length: ASKED }, () => ask), calling("add", 1));
  await socket.until("the last call is answered", answers("add"));
  await socket.until("it is read", (text) => text.includes('"done":true') && text.includes('"key":"s"')); // prettier-ignore
  const pieces = socket.texts.filter((text) => text.includes("zzz"));
  expect(pieces.length).toBeLessThan(ASKED / 4);
}, TEST_TIMEOUT_MS); // prettier-ignore

test("kept broadcasts that are asked for 500 times at once are not sent 500 times", async () => {
  using socket = await open("kept", "?since=");
  socket.send(calling("keep", 16, 60_000));
  await socket.until("they are kept", answers("keep"));
  const ask = JSON.stringify({ type: "cf_agent_kept", since: "0" });
  socket.send(...Array.from({ length: ASKED }, () => ask));
  await socket.until("they are sent again", (text) => text.includes('"end":true'));
  socket.send(calling("add", 1));
  // On a busy machine this process reads too slowly, and its socket is closed before.
  const isOver = () => socket.closed === "1013 Too slow to receive" || socket.texts.some(answers("add")); // prettier-ignore
  await pollUntil("the last call is answered", isOver, { timeoutMs: POLL_TIMEOUT_MS });
  const ends = socket.texts.filter((text) => text.includes('"end":true'));
  expect(ends.length).toBeLessThan(ASKED / 4);
}, TEST_TIMEOUT_MS); // prettier-ignore

test("the names of a read are not kept if they are longer than a stream's key", async () => {
  using socket = await open("names");
  for (const [id, key] of [
    ["i".repeat(257), "k"],
    ["i", "k".repeat(257)],
  ]) {
    // prettier-ignore
    socket.send(JSON.stringify({ type: "cf_agent_stream", id, key }));
    await socket.until("it is refused", (text) => text.includes("at most 256 characters") && text.includes(id!)); // prettier-ignore
  }
});

/** With `MESSAGES` each: less than one socket may queue, and together more than a gateway keeps. */
const SENDERS = 24;
const MESSAGES = 16;
test("messages that wait for a frozen host are bounded for all sockets together, and the rest arrive", async () => {
  const text = "x".repeat(900_000);
  const sockets: RawSocket[] = [];
  try {
    for (let n = 0; n < SENDERS; n += 1) sockets.push(await open(`frozen${n}`));
    host.freeze();
    for (const socket of sockets) socket.send(...Array.from({ length: MESSAGES }, () => text), "hello");
    const closed = await pollUntil("enough are closed", () => {
      const value = sockets.filter(({ closed: frame }) => frame !== undefined);
      return value.length > 3 ? { done: true as const, value } : { done: false as const, saw: value.length };
    }, { timeoutMs: POLL_TIMEOUT_MS });
    expect(closed[0]!.closed).toBe("1013 Too many messages are waiting for the agent");
    host.thaw();
    await pollUntil("all others are answered", () => {
      const left = sockets.filter((socket) => socket.closed === undefined && !socket.texts.includes("hello"));
      return left.length === 0 || { done: false, saw: left.length };
    }, { timeoutMs: POLL_TIMEOUT_MS });
    expect(sockets.filter((socket) => socket.closed === undefined).length).toBeGreaterThan(SENDERS / 3);
  } finally {
    host.thaw();
    for (const socket of sockets) socket[Symbol.dispose]();
  }
}, TEST_TIMEOUT_MS); // prettier-ignore

/** With `MESSAGES` each: more than a host keeps for handlers that run. */
const CALLERS = 14;
test("messages whose handlers run are bounded for all sockets together, and the rest are answered", async () => {
  const call = calling("wait", "x".repeat(900_000));
  const sockets: RawSocket[] = [];
  try {
    for (let n = 0; n < CALLERS; n += 1) sockets.push(await open(`slow${n}`));
    for (const socket of sockets) socket.send(...Array.from({ length: MESSAGES }, () => call));
    const closed = await pollUntil("some are closed", () => {
      const value = sockets.filter(({ closed: frame }) => frame !== undefined);
      return value.length > 1 ? { done: true as const, value } : { done: false as const, saw: value.length };
    }, { timeoutMs: POLL_TIMEOUT_MS });
    expect(closed[0]!.closed).toBe("1013 Too many messages are being handled");
    using neighbour = await open("neighbour");
    neighbour.send("hello");
    await neighbour.until("the neighbour is answered", (said) => said === "hello");
    const answered = ({ texts }: RawSocket) => texts.filter(answers("wait")).length;
    await pollUntil("all others are answered", () => {
      neighbour.send(calling("release"));
      const saw = sockets.map((socket) => socket.closed ?? answered(socket));
      return saw.every((of) => typeof of === "string" || of === MESSAGES) || { done: false, saw };
    }, { timeoutMs: POLL_TIMEOUT_MS });
    using again = await open("slow0");
    again.send(calling("wait", "again"), calling("release"));
    await again.until("a new socket is answered", answers("wait"));
    expect(logged().filter(({ level }) => level === "error")).toEqual([]);
  } finally {
    for (const socket of sockets) socket[Symbol.dispose]();
  }
}, TEST_TIMEOUT_MS); // prettier-ignore
