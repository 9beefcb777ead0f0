/** The total of unsent bytes: with sockets of the test's own, and with those of both adapters. */
import { connect, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import type { Exchange, HttpServerOptions } from "../../core/http/HttpServer.ts";
import { UnsentBytes, type UnsentPeer } from "../../core/http/UnsentBytes.ts";
import { adapters, ok, startServer, until, type Adapter } from "./kit.ts";
import { accepting, client, closeOf } from "./socketRules.ts";

const MIB = 1024 * 1024;
/** Far more than the kernel's buffers take. */
const LARGE_BYTES = 32 * MIB;

class Reader implements UnsentPeer {
  unsentBytes = 0;
  stalled = true;
  isCut = false;

  cut(): void {
    this.isCut = true;
  }
}

const make = (bytesMax: number, count: number) => {
  const unsent = new UnsentBytes(bytesMax);
  const readers = Array.from({ length: count }, () => new Reader());
  const send = (n: number, bytes: number): void => {
    const reader = readers[n]!;
    reader.unsentBytes += bytes;
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
  readers[0]!.unsentBytes = 0;
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

test("what is not stalled is kept, although all together have too much", () => {
  const { readers, send, cut } = make(800, 3);
  readers[0]!.stalled = false;
  send(0, 900);
  send(1, 20);
  send(2, 10);
  expect(cut()).toEqual([1, 2]);
  readers[0]!.stalled = true;
  send(0, 1);
  expect(cut()).toEqual([0, 1, 2]);
});

test("a socket whose bytes are freed is forgotten", () => {
  const { unsent, readers, send, cut } = make(800, 2);
  send(0, 800);
  unsent.forget(readers[0]!);
  send(1, 800);
  expect(cut()).toEqual([]);
});

describe.each(adapters)("a server on $name", (adapter) => {
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
    expect(await closeOf(behind, 10_000)).toEqual([1006, ""]);
    late.ws.resume();
    await until("the other's frames", () => late.received.length === sent);
    expect(sockets.closes).toHaveLength(1);
  });

  test("cuts off callers that read nothing of large answers, and none that reads", async () => {
    // Both libraries end a caller that reads nothing for 10 s: the first one here, without a total.
    await using untotalled = await answering(adapter, { unsentBytesMax: 1024 * MIB });
    untotalled.ask();
    const idle = await until("its answer", () => untotalled.exchanges[0]);
    await using server = await answering(adapter, {
      unsentBytesMax: 1.5 * LARGE_BYTES,
      answerStallMs: 1_000,
    });
    server.ask();
    server.ask();
    const stalled = await until("two answers", () => server.exchanges[1] && [...server.exchanges]);
    let read = 0;
    const slow = server.ask();
    slow.on("data", (piece: Buffer) => {
      read += piece.length;
      slow.pause();
      setTimeout(() => slow.resume(), 1);
    });
    slow.resume();
    while (!stalled.every(({ aborted }) => aborted.fired)) {
      server.ask();
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    expect(idle.aborted.fired).toBe(false);
    await until("the whole slow answer", () => read > LARGE_BYTES, { deadlineMs: 90_000 });
  });
});

/** A server of large answers. A caller of `ask` reads nothing until it is resumed. */
async function answering(adapter: Adapter, limits: Partial<HttpServerOptions>) {
  const exchanges: Exchange[] = [];
  const callers: Socket[] = [];
  const body = new Uint8Array(LARGE_BYTES);
  const onRequest = (exchange: Exchange): void => {
    exchanges.push(exchange);
    exchange.respond(ok(body));
  };
  const server = await startServer(adapter, { onRequest }, limits);
  return {
    exchanges,
    ask: (): Socket => {
      const caller = connect(server.port, "127.0.0.1");
      caller.pause().on("error", () => undefined);
      caller.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
      callers.push(caller);
      return caller;
    },
    [Symbol.asyncDispose]: async () => {
      for (const caller of callers) caller.destroy();
      await server.stop();
    },
  };
}
