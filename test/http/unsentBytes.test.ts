/** The totals of unsent bytes: with readers of the test's own, and with those of both adapters. */
import { describe, expect, test } from "vitest";
import { PeerBytes, type Peer } from "../../core/http/PeerBytes.ts";
import type { Exchange } from "../../core/http/HttpServer.ts";
import { adapters, ok, RawClient, startServer, until } from "./kit.ts";
import { accepting, client, closeOf } from "./socketRules.ts";

class Reader implements Peer {
  keptBytes = 0;
  isCut = false;

  cut(): void {
    this.isCut = true;
  }
}

const make = (bytesMax: number, count: number) => {
  const unsent = new PeerBytes(bytesMax);
  const readers = Array.from({ length: count }, () => new Reader());
  const send = (n: number, bytes: number): void => {
    const reader = readers[n]!;
    reader.keptBytes += bytes;
    unsent.report(reader);
  };
  return {
    unsent,
    readers,
    send,
    cut: () => readers.flatMap(({ isCut }, n) => (isCut ? [n] : [])),
  };
};

test("past the total, the sockets with the most are cut off, until an eighth is free", () => {
  const { send, cut } = make(800, 4);
  send(0, 300);
  send(1, 50);
  send(2, 350);
  send(3, 100);
  expect(cut()).toEqual([]);
  send(1, 1);
  expect(cut()).toEqual([2]);
  // 451 are left of 800.
  send(1, 349);
  expect(cut()).toEqual([2]);
  send(3, 1);
  expect(cut()).toEqual([1, 2]);
});

test("what was read since it was reported does not count", () => {
  const { readers, send, cut } = make(800, 3);
  send(0, 400);
  send(1, 400);
  readers[0]!.keptBytes = 0;
  send(2, 400);
  expect(cut()).toEqual([]);
  send(2, 1);
  expect(cut()).toEqual([2]);
});

test("bytes of a closed socket count while they are held, and are refused where there is no room", () => {
  const { unsent, send, cut } = make(800, 2);
  send(0, 300);
  expect(unsent.hold(501)).toBe(false);
  expect(unsent.hold(500)).toBe(true);
  unsent.release(500);
  send(0, 500);
  expect(cut()).toEqual([]);
  expect(unsent.hold(1)).toBe(false);
});

test("a socket whose bytes are freed is forgotten", () => {
  const { unsent, readers, send, cut } = make(800, 2);
  send(0, 800);
  unsent.forget(readers[0]!);
  send(1, 800);
  expect(cut()).toEqual([]);
});

test("a peer that took something within the grace is not cut off, however much it has", () => {
  let nowMs = 0;
  const unsent = new PeerBytes(800, { graceMs: 100, nowMs: () => nowMs });
  const readers = [300, 450].map((bytes) => Object.assign(new Reader(), { keptBytes: bytes }));
  for (const reader of readers) unsent.report(reader);
  expect(unsent.makeRoom(50)).toBe(true);
  expect(unsent.makeRoom(51)).toBe(false);
  nowMs = 99;
  unsent.report(readers[1]!);
  nowMs = 100;
  expect(unsent.makeRoom(351)).toBe(false);
  expect(readers.map(({ isCut }) => isCut)).toEqual([true, false]);
  expect(unsent.makeRoom(350)).toBe(true);
});

const MIB = 1024 * 1024;
// Far more than the kernel takes of an answer that nobody reads.
const LARGE = "x".repeat(12 * MIB);

const GET = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const TEST_MS_MAX = 300_000;
const NEVER_STALLED = 3_600_000;

describe.each(adapters)("a server on $name", (adapter) => {
  /** Two callers of a server with room for one of their answers, before it answers any. */
  const two = async (answerStallMs: number) => {
    const exchanges: Exchange[] = [];
    const server = await startServer(
      adapter,
      { onRequest: (exchange) => void exchanges.push(exchange) },
      { unsentBytesMax: 16 * MIB, answerStallMs },
    );
    const ask = async () => {
      const caller = await RawClient.connect(server.port);
      const count = exchanges.length;
      caller.send(GET);
      return { caller, exchange: await until("the request", () => exchanges[count]) };
    };
    const [a, b] = [await ask(), await ask()];
    const stop = async () => {
      for (const { caller } of [a, b]) caller[Symbol.dispose]();
      await server.stop();
    };
    return { ask, a, b, [Symbol.asyncDispose]: stop };
  };
  const forms: ReadonlyArray<readonly [string, (exchange: Exchange) => void]> = [
    ["whole", (exchange) => exchange.respond(ok(LARGE))],
    [
      "streamed",
      (exchange) =>
        exchange.stream(ok(LARGE), {
          read: () => new Promise(() => undefined),
          cancel: async () => undefined,
        }),
    ],
  ];
  test.each(forms)(
    "cuts off a %s answer that is not read, for another",
    async (_, respond) => {
      await using callers = await two(0);
      const { a, b } = callers;
      respond(a.exchange);
      expect(a.exchange.aborted.fired).toBe(false);
      b.exchange.respond(ok(LARGE));
      await until("the abort", () => a.exchange.aborted.fired);
      await until("the answer", () => b.caller.text.length > LARGE.length);
      expect(b.caller.text).toMatch(/^HTTP\/1\.1 200 /);
      expect(a.caller.text.length).toBeLessThan(LARGE.length);
    },
    TEST_MS_MAX,
  );

  test(
    "answers 503 instead of cutting off a caller that still reads",
    async () => {
      await using callers = await two(NEVER_STALLED);
      const { a, b } = callers;
      a.exchange.respond(ok(LARGE));
      b.exchange.respond(ok(LARGE));
      await until("the refusal", () => b.caller.text.includes("Try again later."));
      expect(b.caller.text).toMatch(/^HTTP\/1\.1 503 /);
      await until("the answer", () => a.caller.text.length > LARGE.length);
      expect(a.caller.text).toMatch(/^HTTP\/1\.1 200 /);
      // An answer that was read makes room.
      const c = await callers.ask();
      c.exchange.respond(ok(LARGE));
      await until("the third answer", () => c.caller.text.length > LARGE.length);
      c.caller[Symbol.dispose]();
    },
    TEST_MS_MAX,
  );

  test("one frame above the limit of a socket arrives, with smaller ones before and after it", async () => {
    const limits = { socketBufferBytesMax: 256 * 1024, unsentBytesMax: 64 * 1024 * 1024 };
    const { server, sockets } = await accepting(adapter, limits);
    await using _ = server;
    using peer = await client(server.port);
    const socket = await sockets.first();
    peer.ws.pause();
    // More than the kernel takes from a peer that does not read.
    const small = "x".repeat(16 * 1024);
    const frames = [small, "é".repeat(8 * 1024 * 1024), small, small];
    for (const frame of frames) socket.send(frame);
    peer.ws.resume();
    await until("the frames", () => peer.received.length === frames.length);
    expect(peer.received.every((data, n) => data === frames[n])).toBe(true);
    expect(sockets.closes).toEqual([]);
  });

  test("cuts off the slowest reader when all together hold too many bytes", async () => {
    const limits = { socketBufferBytesMax: 64 * 1024 * 1024, unsentBytesMax: 1024 * 1024 };
    const { server, sockets } = await accepting(adapter, limits);
    await using _ = server;
    using behind = await client(server.port);
    const most = await sockets.first();
    using late = await client(server.port);
    const little = await until("the second socket", () => sockets.open[1]);
    for (const { ws } of [behind, late]) ws.pause();
    const frame = "x".repeat(16 * 1024);
    let sent = 0;
    const push = () => {
      for (let n = 0; n < 8; n += 1) most.send(frame);
      little.send(frame);
      sent += 1;
      return sockets.closes[0];
    };
    expect(await until("the cut", push)).toEqual([1013, "Too slow to receive", false]);
    behind.ws.resume();
    expect(await closeOf(behind)).toEqual([1006, ""]);
    late.ws.resume();
    await until("the other's frames", () => late.received.length === sent);
    expect(sockets.closes).toHaveLength(1);
  });
});
