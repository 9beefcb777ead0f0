/** Rules for WebSockets: handshake, messages, how a socket ends, peers that lag or vanish. */
import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { WebSocket, type ClientOptions } from "ws";
import type {
  HttpHandlers,
  HttpRequest,
  HttpServerOptions,
  ServerSocket,
  SocketHandlers,
  UpgradeDecision,
} from "../../core/http/HttpServer.ts";
import { RawClient, startServer, until, valuesOf, type Adapter } from "./kit.ts";

type Close = readonly [code: number, reason: string, clean: boolean];

/** What happened to the sockets of a server, in order. */
class Sockets {
  readonly open: ServerSocket[] = [];
  readonly messages: Array<string | Uint8Array> = [];
  readonly closes: Close[] = [];
  onMessage: SocketHandlers["onMessage"] = (data) => void this.messages.push(data);
  onOpen: (socket: ServerSocket) => void = () => undefined;

  readonly accept = (socket: ServerSocket): SocketHandlers => {
    this.open.push(socket);
    this.onOpen(socket);
    return {
      onMessage: (data) => this.onMessage(data),
      onClose: (...close) => void this.closes.push(close),
    };
  };

  readonly decision = (protocol?: string): UpgradeDecision =>
    protocol === undefined
      ? { _tag: "Accept", open: this.accept }
      : { _tag: "Accept", open: this.accept, protocol };

  first(): Promise<ServerSocket> {
    return until("a socket", () => this.open[0]);
  }

  firstClose(): Promise<Close> {
    return until("a close", () => this.closes[0]);
  }
}

interface Started {
  readonly sockets: Sockets;
  readonly server: Awaited<ReturnType<typeof startServer>>;
}

export const accepting = async (
  adapter: Adapter,
  options: Partial<HttpServerOptions> = {},
  onUpgrade?: HttpHandlers["onUpgrade"],
): Promise<Started> => {
  const sockets = new Sockets();
  const decide = onUpgrade ?? (async () => sockets.decision());
  return { sockets, server: await startServer(adapter, { onUpgrade: decide }, options) };
};

interface Client extends Disposable {
  readonly ws: WebSocket;
  readonly received: Array<string | Buffer>;
  readonly close: () => readonly [number, string] | undefined;
}

export const client = async (
  port: number,
  options: ClientOptions & { readonly protocols?: string[] } = {},
): Promise<Client> => {
  const ws = new WebSocket(`ws://127.0.0.1:${port}/s?a=1`, options.protocols ?? [], options);
  const received: Array<string | Buffer> = [];
  let closed: readonly [number, string] | undefined;
  ws.on("message", (data: Buffer, binary: boolean) =>
    received.push(binary ? data : data.toString()),
  );
  ws.on("close", (code, reason) => (closed = [code, reason.toString()]));
  const opened = new Promise<void>((resolve, reject) => {
    ws.once("open", resolve);
    ws.once("error", reject);
  });
  await opened;
  ws.on("error", () => undefined);
  return { ws, received, close: () => closed, [Symbol.dispose]: () => ws.terminate() };
};

export const closeOf = (peer: Client) => until("the client's close", peer.close);

export const handshakeText = (key = "dGhlIHNhbXBsZSBub25jZQ==", version = "13"): string =>
  "GET /s HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" +
  `Sec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: ${version}\r\n\r\n`;

export const socketRules = (adapter: Adapter): void => {
  describe("the handshake", () => {
    it("lets the handler decide on the whole request, asynchronously", async () => {
      const seen: HttpRequest[] = [];
      const sockets = new Sockets();
      await using server = await startServer(adapter, {
        onUpgrade: async (request) => {
          seen.push(request);
          await new Promise((resolve) => setTimeout(resolve, 30));
          return sockets.decision();
        },
      });
      using peer = await client(server.port, { headers: { "x-token": "t" } });
      expect(peer.ws.readyState).toBe(WebSocket.OPEN);
      expect(seen.map(({ method, target }) => [method, target])).toEqual([["GET", "/s?a=1"]]);
      expect(seen[0]?.headers["x-token"]).toEqual(["t"]);
    });

    it("refuses a target that is not a path or contains raw UTF-8 before the handler sees it", async () => {
      let decided = 0;
      await using server = await startServer(adapter, {
        onUpgrade: async () => {
          decided++;
          return new Sockets().decision();
        },
      });
      for (const target of ["*", "http://h/x", "/caf\xc3\xa9", "/s?\xff"]) {
        using raw = await RawClient.connect(server.port);
        raw.send(handshakeText().replace("/s", target));
        expect((await raw.response()).statusLine).toMatch(/^HTTP\/1\.1 (400|505) /);
      }
      expect(decided).toBe(0);
    });

    it("is refused with a plain response", async () => {
      await using server = await startServer(adapter, {
        onUpgrade: async () => ({
          _tag: "Refuse",
          response: { status: 401, headers: [["www-authenticate", "Bearer"]], body: "no" },
        }),
      });
      using raw = await RawClient.connect(server.port);
      const response = await raw.send(handshakeText()).response();
      expect([response.statusLine, response.body]).toEqual(["HTTP/1.1 401 Unauthorized", "no"]);
      expect(valuesOf(response, "www-authenticate")).toEqual(["Bearer"]);
    });

    it("answers with the accept key of the standard's example", async () => {
      const { server } = await accepting(adapter);
      await using _ = server;
      using raw = await RawClient.connect(server.port);
      const response = await raw.send(handshakeText()).response();
      expect(response.statusLine).toBe("HTTP/1.1 101 Switching Protocols");
      expect(valuesOf(response, "sec-websocket-accept")).toEqual(["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]);
      expect(valuesOf(response, "sec-websocket-protocol")).toEqual([]);
      expect(valuesOf(response, "sec-websocket-extensions")).toEqual([]);
    });

    it("selects a subprotocol only if the handler chose one that was offered", async () => {
      const sockets = new Sockets();
      let given: string | undefined;
      await using server = await startServer(adapter, {
        onUpgrade: async () => sockets.decision(given),
      });
      const answered = async (protocol: string | undefined, offered: string): Promise<string[]> => {
        given = protocol;
        using raw = await RawClient.connect(server.port);
        const offer = offered === "" ? "" : `Sec-WebSocket-Protocol: ${offered}\r\n`;
        raw.send(handshakeText().replace("Upgrade: W", `${offer}Upgrade: W`));
        return [...valuesOf(await raw.response(), "sec-websocket-protocol")];
      };
      expect(await answered("b", "a, b")).toEqual(["b"]);
      expect(await answered(undefined, "a, b")).toEqual([]);
      expect(await answered("c", "a, b")).toEqual([]);
      expect(await answered("c", "")).toEqual([]);
    });

    const plain = handshakeText();
    const without = (line: RegExp): string => plain.replace(line, "");
    const withLine = (line: string): string => plain.replace("\r\n\r\n", `\r\n${line}\r\n\r\n`);
    const KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    it.each([
      ["a short key", handshakeText("short"), "key"],
      ["a key that is not base64", handshakeText("!!!!!!!!!!!!!!!!!!!!!!=="), "key"],
      ["two keys", withLine(KEY), "key"],
      ["no key", without(/Sec-WebSocket-Key.*\r\n/), "key"],
      ["an old version", handshakeText(undefined, "8"), "version: 13"],
      ["two versions", withLine("Sec-WebSocket-Version: 13"), "version: 13"],
      ["no connection option", without(/Connection.*\r\n/), "connection: upgrade"],
      ["another connection option", plain.replace(", Upgrade", ""), "connection: upgrade"],
      ["a body", withLine("Content-Length: 4") + "body", "no body"],
      ["an empty body", withLine("Content-Length: 0"), "no body"],
      ["a chunked body", withLine("Transfer-Encoding: chunked") + "0\r\n\r\n", "no body"],
      ["a protocol that is none", withLine("Sec-WebSocket-Protocol: a b"), "protocol"],
      ["a protocol twice", withLine("Sec-WebSocket-Protocol: a, b, a"), "protocol"],
    ])("with %s gets 400 with the reason", async (_, text, why) => {
      const { server, sockets } = await accepting(adapter);
      await using _server = server;
      using raw = await RawClient.connect(server.port);
      const response = await raw.send(text).response();
      expect(response.statusLine).toBe("HTTP/1.1 400 Bad Request");
      expect(response.body).toContain("Bad WebSocket handshake: it lacks");
      expect(response.body).toContain(why);
      expect(sockets.open).toEqual([]);
    });

    it.each(["POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH"])(
      "is not attempted for a %s, which is plain HTTP without the offer",
      async (method) => {
        const seen: unknown[] = [];
        const upgrades: unknown[] = [];
        await using server = await startServer(adapter, {
          onUpgrade: async (request) => {
            upgrades.push(request);
            throw new Error("no upgrade");
          },
          onRequest: (exchange) => {
            seen.push([exchange.request.method, exchange.request.headers["upgrade"]]);
            exchange.respond({ status: 200, headers: [], body: "" });
          },
        });
        for (const text of [plain, withLine("Content-Length: 0")]) {
          using raw = await RawClient.connect(server.port);
          raw.send(text.replace("GET", method));
          expect((await raw.response({ bodiless: true })).statusLine).toBe("HTTP/1.1 200 OK");
        }
        expect(seen).toEqual([
          [method, undefined],
          [method, undefined],
        ]);
        expect(upgrades).toEqual([]);
      },
    );

    it("behind an unanswered request ends the connection, and nothing else", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      const held = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";
      await using slow = await startServer(adapter, {
        onRequest: () => undefined,
        onUpgrade: async () => sockets.decision(),
      });
      for (const text of [plain, handshakeText("short"), plain.replace("GET", "POST")]) {
        using raw = await RawClient.connect(slow.port);
        raw.send(held + text);
        await raw.untilClosed();
      }
      expect(sockets.open).toEqual([]);
      using peer = await client(server.port);
      expect(peer.ws.readyState).toBe(WebSocket.OPEN);
    });

    it("opens no socket if the caller leaves before the decision", async () => {
      const sockets = new Sockets();
      const decisions: Array<(decision: UpgradeDecision) => void> = [];
      const signals: AbortSignal[] = [];
      await using server = await startServer(adapter, {
        onUpgrade: (_, aborted) => {
          signals.push(aborted);
          return new Promise((resolve) => decisions.push(resolve));
        },
      });
      using raw = await RawClient.connect(server.port);
      raw.send(handshakeText());
      const decide = await until("the upgrade", () => decisions[0]);
      expect(signals[0]?.aborted).toBe(false);
      raw.socket.destroy();
      await until("the abort", () => signals[0]?.aborted);
      let missed = 0;
      decide({ _tag: "Accept", open: sockets.accept, missed: () => void (missed += 1) });
      using other = await RawClient.connect(server.port);
      other.send(handshakeText());
      (await until("the other upgrade", () => decisions[1]))(sockets.decision());
      await other.response();
      expect(sockets.open).toHaveLength(1);
      expect(missed).toBe(1);
    });

    it("leaves no connection behind after a thousand in a row", async () => {
      const { server, sockets } = await accepting(adapter, { connectionsMax: 20 });
      await using _ = server;
      for (let round = 0; round < 50; round += 1) {
        const peers = await Promise.all(Array.from({ length: 10 }, () => client(server.port)));
        for (const peer of peers) peer.ws.terminate();
        const ended = (round + 1) * 10;
        await until("the closes", () => sockets.closes.length === ended, {
          seen: () => sockets.closes.length,
        });
      }
    });
  });

  describe("messages", () => {
    it("keep their kind both ways, text and binary", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      sockets.onMessage = (data) => {
        sockets.messages.push(data);
        sockets.open[0]?.send(data);
      };
      using peer = await client(server.port);
      const sent = ["", "grüße 🙂", Buffer.alloc(0), randomBytes(30_000), "x".repeat(60_000)];
      for (const data of sent) peer.ws.send(data);
      await until("the echoes", () => peer.received.length === sent.length);
      expect(peer.received).toEqual(sent);
      const plain = sockets.messages.map((data) =>
        typeof data === "string" ? data : Buffer.from(data),
      );
      expect(plain).toEqual(sent);
    });

    it("keep their bytes after the next message arrives", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      for (let n = 0; n < 200; n += 1) peer.ws.send(Buffer.alloc(100, n));
      await until("the messages", () => sockets.messages.length === 200);
      const intact = sockets.messages.every((data, n) =>
        (data as Uint8Array).every((byte) => byte === n),
      );
      expect(intact).toBe(true);
    });

    it("in fragments arrive as one", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      peer.ws.send("one ", { fin: false });
      peer.ws.ping();
      peer.ws.send("two ", { fin: false });
      peer.ws.send("three", { fin: true });
      await until("the message", () => sockets.messages.length > 0);
      expect(sockets.messages).toEqual(["one two three"]);
    });

    it("arrive only after open returned, and what open sends goes first", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      let opened = false;
      const early: boolean[] = [];
      sockets.onOpen = (socket) => {
        socket.send("first");
        socket.send("second");
        opened = true;
      };
      sockets.onMessage = () => {
        early.push(!opened);
        sockets.open[0]?.send("answer");
      };
      using peer = await client(server.port);
      peer.ws.send("hello");
      await until("the answer", () => peer.received.includes("answer"));
      expect(peer.received).toEqual(["first", "second", "answer"]);
      expect(early).toEqual([false]);
    });

    it("arrive in the order they were sent", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      const socket = await sockets.first();
      const sent = Array.from({ length: 3_000 }, (__, n) => `${n}`.padEnd((n * 7) % 300, "."));
      for (const data of sent) socket.send(data);
      await until("all frames", () => peer.received.length === sent.length);
      expect(peer.received).toEqual(sent);
    });

    it("of encoded text arrive as text, in order among others", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      const socket = await sockets.first();
      socket.send("before");
      socket.sendText(new TextEncoder().encode("Grüße ☃"));
      socket.send("after");
      await until("all frames", () => peer.received.length === 3);
      expect(peer.received).toEqual(["before", "Grüße ☃", "after"]);
    });

    it("over the limit close the socket with 1009", async () => {
      const { server, sockets } = await accepting(adapter, { messageBytesMax: 10_000 });
      await using _ = server;
      using peer = await client(server.port);
      peer.ws.send("x".repeat(10_000));
      peer.ws.send("x".repeat(10_001));
      expect((await closeOf(peer))[0]).toBe(1009);
      expect(await sockets.firstClose()).toEqual([1009, "Message too large", false]);
      expect(sockets.messages).toEqual(["x".repeat(10_000)]);
    });

    it("far over the limit close the socket without being buffered", async () => {
      const { server, sockets } = await accepting(adapter, { messageBytesMax: 10_000 });
      await using _ = server;
      using peer = await client(server.port);
      peer.ws.send("x".repeat(1_000_000));
      expect([1006, 1009]).toContain((await closeOf(peer))[0]);
      expect(await sockets.firstClose()).toEqual([1009, "Message too large", false]);
      expect(sockets.messages).toEqual([]);
    });

    it("of invalid UTF-8 text close the socket", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      peer.ws.send(Buffer.from([0xc3, 0x28]), { binary: false });
      expect([1006, 1007]).toContain((await closeOf(peer))[0]);
      expect((await sockets.firstClose())[2]).toBe(false);
      expect(sockets.messages).toEqual([]);
    });
  });

  describe("the end of a socket", () => {
    const byPeer: ReadonlyArray<readonly [string, (ws: WebSocket) => void, Close]> = [
      ["a code and a reason", (ws) => ws.close(4001, "bye 🙂"), [4001, "bye 🙂", true]],
      ["a code", (ws) => ws.close(1000), [1000, "", true]],
      ["no code", (ws) => ws.close(), [1005, "", true]],
      ["nothing at all", (ws) => ws.terminate(), [1006, "", false]],
    ];
    it.each(byPeer)("by a peer with %s is reported so", async (_, leave, close) => {
      const { server, sockets } = await accepting(adapter);
      await using _server = server;
      using peer = await client(server.port);
      await sockets.first();
      leave(peer.ws);
      expect(await sockets.firstClose()).toEqual(close);
      await closeOf(peer);
      expect(sockets.closes).toHaveLength(1);
    });

    it("with a code of 3000 to 3999 is reported; uWebSockets.js takes it for an abnormal close", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _server = server;
      using peer = await client(server.port);
      peer.ws.close(3001, "library");
      const expected = { uws: [1006, "", false], node: [3001, "library", true] };
      expect(await sockets.firstClose()).toEqual(expected[adapter.name]);
    });

    it("by the server reaches the peer, and calls onClose once, after close has returned", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      const socket = await sockets.first();
      socket.send("last");
      socket.close(4002, "enough");
      expect(sockets.closes).toEqual([]);
      socket.close(4003, "again");
      socket.send("too late");
      expect(await sockets.firstClose()).toEqual([4002, "enough", true]);
      expect(await closeOf(peer)).toEqual([4002, "enough"]);
      expect(peer.received).toEqual(["last"]);
      expect(sockets.closes).toHaveLength(1);
    });

    it("may be requested in open and in onMessage", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      sockets.onOpen = (socket) => {
        if (sockets.open.length === 1) socket.close(4004, "in open");
      };
      sockets.onMessage = () => sockets.open[1]?.close(4005, "in onMessage");
      using first = await client(server.port);
      expect(await closeOf(first)).toEqual([4004, "in open"]);
      using second = await client(server.port);
      second.ws.send("x");
      second.ws.send("not delivered");
      expect(await closeOf(second)).toEqual([4005, "in onMessage"]);
      expect(sockets.closes).toEqual([
        [4004, "in open", true],
        [4005, "in onMessage", true],
      ]);
    });

    it.each([0, 999, 1004, 1005, 1006, 1015, 2000, 5000, Number.NaN, 1000.5])(
      "with the reserved code %d sends the peer no code",
      async (code) => {
        const { server, sockets } = await accepting(adapter);
        await using _ = server;
        using peer = await client(server.port);
        (await sockets.first()).close(code, "ignored");
        expect((await closeOf(peer))[0]).toBe(1005);
        expect((await sockets.firstClose())[0]).toBe(1005);
      },
    );

    it("text arrives as it was sent, whatever characters it has", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      const texts = ["\xe9t\xe9 \xff", "caf\xe9 \u65e5\u672c", "plain"];
      const socket = await sockets.first();
      for (const text of texts) socket.send(text);
      await until("the texts", () => peer.received.length === texts.length);
      expect(peer.received.map(String)).toEqual(texts);
    });

    it("sends an unpaired surrogate as U+FFFD, in text and in a reason", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      const socket = await sockets.first();
      socket.send("x\ud83d");
      socket.close(4000, "\ud83dy");
      expect(await closeOf(peer)).toEqual([4000, "\ufffdy"]);
      expect(peer.received.map(String)).toEqual(["x\ufffd"]);
    });

    it("truncates a reason to what a frame holds, between characters", async () => {
      const { server, sockets } = await accepting(adapter);
      await using _ = server;
      using peer = await client(server.port);
      (await sockets.first()).close(4000, `x${"é".repeat(100)}`);
      expect(await closeOf(peer)).toEqual([4000, `x${"é".repeat(61)}`]);
    });

    it("comes with 1013 for a reader that falls behind, which then uses no more memory", async () => {
      const limit = 256 * 1024;
      const { server, sockets } = await accepting(adapter, { socketBufferBytesMax: limit });
      await using _ = server;
      using peer = await client(server.port);
      const socket = await sockets.first();
      peer.ws.pause();
      const frame = "x".repeat(16 * 1024);
      let sent = 0;
      const push = () => {
        for (let n = 0; n < 64; n += 1) socket.send(frame);
        sent += 64;
        return sockets.closes[0];
      };
      expect(await until("the overflow", push)).toEqual([1013, "Too slow to receive", false]);
      for (let n = 0; n < 10_000; n += 1) socket.send(frame);
      peer.ws.resume();
      expect(await closeOf(peer)).toEqual([1013, "Too slow to receive"]);
      expect(peer.received.length).toBeLessThanOrEqual(sent);
      expect(peer.received.every((data) => data === frame)).toBe(true);
    });

    it("does not come for a reader that keeps up, however much it receives", async () => {
      const limit = 256 * 1024;
      const { server, sockets } = await accepting(adapter, { socketBufferBytesMax: limit });
      await using _ = server;
      using peer = await client(server.port);
      const socket = await sockets.first();
      const frame = "x".repeat(16 * 1024);
      for (let n = 1; n <= 100; n += 1) {
        socket.send(frame);
        await until("the frame", () => peer.received.length === n);
      }
      expect(sockets.closes).toEqual([]);
    });
  });
};
