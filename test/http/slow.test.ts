/** The rules of the port that take seconds to test, all concurrently. */
import { describe, it } from "vitest";
import { WebSocket } from "ws";
import { adapters, RawClient, startServer, until } from "./kit.ts";
import { counting } from "./limitRules.ts";
import { accepting, client, closeOf, handshakeText } from "./socketRules.ts";

describe.concurrent.each(adapters)("$name", (adapter) => {
  const heads = [
    ["never begins", ""],
    ["stops in the middle", "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: "],
    ["holds what no head may", "GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n"],
  ] as const;
  it.for(heads)("a head that %s closes its connection", async ([what, sent], { expect }) => {
    const { handled, server } = await counting(adapter, { headerTimeoutMs: 500 });
    await using _server = server;
    using raw = await RawClient.connect(server.port);
    raw.send(sent);
    await raw.untilClosed();
    expect(raw.text, what).toMatch(/^(HTTP\/1\.1 (408|400) |$)/);
    expect(handled).toEqual([]);
  });

  it("a slowly trickling head gets no extra time", async ({ expect }) => {
    const { handled, server } = await counting(adapter, { headerTimeoutMs: 500 });
    await using _server = server;
    using raw = await RawClient.connect(server.port);
    raw.send("GET / HTTP/1.1\r\nHost: h\r\n");
    const trickle = setInterval(() => raw.send("X-A: b\r\n"), 200);
    await raw.untilClosed().finally(() => clearInterval(trickle));
    expect(handled).toEqual([]);
  });

  it("a caller whose body is refused can send it to its end", async ({ expect }) => {
    const { handled, server } = await counting(adapter);
    await using _server = server;
    using raw = await RawClient.connect(server.port);
    const pieces = 20;
    const piece = "x".repeat(100);
    raw.send(`POST / HTTP/1.1\r\nHost: h\r\nContent-Length: ${pieces * piece.length}\r\n\r\n`);
    let sent = 0;
    for (; sent < pieces && !raw.closed; sent++) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      raw.send(piece);
    }
    await raw.untilClosed();
    expect([sent, raw.text.slice(0, 12)]).toEqual([pieces, "HTTP/1.1 413"]);
    expect(handled).toEqual([]);
  });

  it("a handshake that is never decided holds up a stop no longer than a request", async ({
    expect,
  }) => {
    let asked: AbortSignal | undefined;
    const server = await startServer(adapter, {
      onUpgrade: (_, aborted) => {
        asked = aborted;
        return new Promise(() => undefined);
      },
    });
    const peer = new WebSocket(`ws://127.0.0.1:${server.port}`);
    const failed = new Promise((resolve) => peer.on("error", resolve));
    const aborted = await until("the handshake", () => asked);
    await server.stop();
    await failed;
    expect(aborted.aborted).toBe(true);
  });

  it("a peer that answers no ping is disconnected, and one that does is kept", async ({
    expect,
  }) => {
    const { server, sockets } = await accepting(adapter, { socketIdleMs: 12_000 });
    await using _server = server;
    using alive = await client(server.port);
    using dead = await client(server.port, { autoPong: false });
    expect((await closeOf(dead))[0]).toBe(1006);
    expect(await sockets.firstClose()).toEqual([1006, "", false]);
    expect(alive.ws.readyState).toBe(WebSocket.OPEN);
  });

  it("a peer that sends one message for longer than it may be idle is kept", async ({ expect }) => {
    const { server, sockets } = await accepting(adapter, { socketIdleMs: 12_000 });
    await using _server = server;
    using peer = await RawClient.connect(server.port);
    peer.send(handshakeText());
    await sockets.first();
    // The head of a text frame of three bytes, masked with zeros.
    peer.send("\x81\x83\0\0\0\0");
    const pings = () => peer.text.split("\x89\0").length - 1;
    for (let sent = 1; sent <= 3; sent++) {
      // A ping can't be answered within a frame.
      await until(`ping ${sent}`, () => peer.closed || pings() >= sent);
      peer.send("a");
    }
    expect(await until("the message", () => sockets.messages[0] ?? sockets.closes[0])).toBe("aaa");
  });
});
