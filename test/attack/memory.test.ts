/** Callers that send and never read: each costs a few MiB, not the process. Both HTTP servers. */
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import type { Exchange, SocketHandlers } from "../../core/http/HttpServer.ts";
import { adapters, ok, startServer, until } from "../http/kit.ts";

const MIB = 1024 * 1024;
const ATTACK_BYTES = 200 * MIB;
const GROWTH_MAX = 64 * MIB;
/** The server's own time for peers that close slowly is longer than a test. */
const ATTACK_MS = 8_000;

const HANDSHAKE =
  "GET /s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/** A ping of 125 bytes, masked with zeros. */
const PING = Buffer.concat([Buffer.from([0x89, 0x80 | 125, 0, 0, 0, 0]), Buffer.alloc(125, 97)]);

async function opened(
  port: number,
): Promise<{ readonly socket: Socket; readonly isClosed: () => boolean }> {
  const socket = connect(port, "127.0.0.1");
  let closed = false;
  socket.on("error", () => undefined).on("close", () => (closed = true));
  await new Promise((resolve) => socket.once("connect", resolve));
  return { socket, isClosed: () => closed };
}

/** Bytes that the process has grown by while `attack` ran. */
async function growth(attack: () => Promise<void>): Promise<number> {
  const before = process.memoryUsage().rss;
  await attack();
  return process.memoryUsage().rss - before;
}

/** Writes a piece again and again, as fast as it is taken, until `isOver` or `ATTACK_BYTES`. */
async function flood(socket: Socket, piece: Buffer, isOver: () => boolean): Promise<number> {
  const endMs = performance.now() + ATTACK_MS;
  let sent = 0;
  while (sent < ATTACK_BYTES && !isOver() && performance.now() < endMs) {
    if (socket.writableLength < MIB) {
      socket.write(piece);
      sent += piece.length;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  return sent;
}

describe.each(adapters)("over $name", (adapter) => {
  it("pings whose pongs are never read close the socket with 1013", async () => {
    const closes: unknown[][] = [];
    let pings = 0;
    const open = (): SocketHandlers => ({
      onMessage: () => undefined,
      onPing: (bytes) => void (pings += bytes / 125),
      onClose: (...close) => void closes.push(close),
    });
    await using server = await startServer(adapter, {
      onUpgrade: async () => ({ _tag: "Accept", open }),
    });
    const { socket, isClosed } = await opened(server.port);
    try {
      socket.write(HANDSHAKE);
      await new Promise((resolve) => socket.once("data", resolve));
      socket.pause();
      const pieces = Buffer.concat(Array.from({ length: 4_096 }, () => PING));
      const grown = await growth(async () => {
        // On and on after the close: a peer may not care.
        await flood(socket, pieces, isClosed);
      });
      expect(closes).toEqual([[1013, "Too slow to receive", false]]);
      expect(pings).toBeGreaterThanOrEqual(1_000);
      expect(grown).toBeLessThan(GROWTH_MAX);
    } finally {
      socket.destroy();
    }
  });

  const forms: ReadonlyArray<readonly [string, string, number]> = [
    ["large answers", "GET", 60_000],
    ["small answers", "GET", 500],
    ["answers to HEAD", "HEAD", 60_000],
  ];
  it.each(forms)(
    "requests whose %s are never read use no extra memory",
    async (_, method, size) => {
      const text = "x".repeat(size);
      await using server = await startServer(adapter, {
        onRequest: (exchange) =>
          exchange.respond({ status: 200, headers: [["x", "y".repeat(500)]], body: text }),
      });
      const { socket, isClosed } = await opened(server.port);
      try {
        socket.pause();
        const pieces = Buffer.from(`${method} / HTTP/1.1\r\nHost: h\r\n\r\n`.repeat(8));
        expect(await growth(async () => void (await flood(socket, pieces, isClosed)))).toBeLessThan(
          GROWTH_MAX,
        );
      } finally {
        socket.destroy();
      }
    },
  );

  it("requests that pile up behind an unanswered one close the connection", async () => {
    const held: Exchange[] = [];
    await using server = await startServer(adapter, {
      onRequest: (exchange) => void held.push(exchange),
    });
    const { socket, isClosed } = await opened(server.port);
    socket.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10_000));
    await until("the connection to end", isClosed);
    await until("the callers to be gone", () => held.every(({ aborted }) => aborted.fired));
    expect(held.length).toBeLessThanOrEqual(16);
    for (const exchange of held) exchange.respond(ok());
    // None is still open, for which a stopping server would wait.
    const startMs = performance.now();
    await server.stop();
    expect(performance.now() - startMs).toBeLessThan(60_000);
  });
});
