/** Rules for how a server begins and ends. */
import { Effect, Exit, Scope } from "effect";
import { describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import type { Exchange, UpgradeDecision } from "../../core/http/HttpServer.ts";
import { ok, RawClient, startServer, until, type Adapter, type TestServer } from "./kit.ts";

const GET = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

export const lifecycleRules = (adapter: Adapter): void => {
  describe("a server's life", () => {
    it("a port in use is a ListenFailed that says what to do", async () => {
      await using server = await startServer(adapter);
      const again = startServer(adapter, {}, { port: server.port });
      await expect(again).rejects.toMatchObject({
        _tag: "ListenFailed",
        port: server.port,
        message: expect.stringContaining("in use by another process: stop it") as string,
      });
    });

    it("a port is shared only by servers that all request it", async () => {
      const port = await pickPort();
      const shared = (): Promise<TestServer> =>
        startServer(adapter, {}, { port, portShared: true });
      const { node = "" } = process.versions;
      if (adapter.name === "node" && /^(20|21|22\.\d|22\.1[01])\./.test(node)) {
        const message = expect.stringContaining("use Node 22.12 or newer") as string;
        await expect(shared()).rejects.toMatchObject({ _tag: "ListenFailed", message });
        return;
      }
      await using first = await shared();
      await using second = await shared();
      expect([first.port, second.port]).toEqual([port, port]);
      await expect(startServer(adapter, {}, { port })).rejects.toThrow("in use");
    });

    it("an address of another machine is a ListenFailed with the reason", async () => {
      const elsewhere = startServer(adapter, {}, { hostname: "192.0.2.1" });
      await expect(elsewhere).rejects.toMatchObject({
        _tag: "ListenFailed",
        message: expect.stringContaining("not an address of this machine") as string,
      });
    });

    it("after a stop, nothing listens and the port is free again", async () => {
      const port = await pickPort();
      const server = await startServer(adapter, {}, { port });
      using idle = await RawClient.connect(server.port);
      await idle.send(GET).response();
      await server.stop();
      await idle.untilClosed();
      await expect(RawClient.connect(server.port)).rejects.toThrow("ECONNREFUSED");
      await using again = await startServer(adapter, {}, { port });
      expect((await fetch(again.url)).status).toBe(200);
    });

    it("stopping answers requests in flight and ends their connections", async () => {
      const exchanges: Exchange[] = [];
      const server = await startServer(adapter, {
        onRequest: (exchange) => void exchanges.push(exchange),
      });
      using client = await RawClient.connect(server.port);
      client.send(GET);
      const exchange = await until("the exchange", () => exchanges[0]);
      let stopped = false;
      const stopping = server.stop().then(() => (stopped = true));
      await expect(RawClient.connect(server.port)).rejects.toThrow("ECONNREFUSED");
      expect([stopped, client.closed]).toEqual([false, false]);
      exchange.respond(ok("in time"));
      await stopping;
      expect((await client.response()).body).toBe("in time");
      await client.untilClosed();
    });

    it("a request on an open connection during the stop is answered, and ends the connection", async () => {
      const exchanges: Exchange[] = [];
      const server = await startServer(adapter, {
        onRequest: (exchange) => {
          if (exchange.request.target === "/now") exchange.respond(ok("late"));
          else exchanges.push(exchange);
        },
      });
      using busy = await RawClient.connect(server.port);
      using old = await RawClient.connect(server.port);
      using idle = await RawClient.connect(server.port);
      idle.send("GET /now HTTP/1.1\r\nHost: h\r\n\r\n");
      expect((await idle.response()).body).toBe("late");
      old.send("GET /now HTTP/1.1\r\n");
      busy.send(GET);
      const exchange = await until("the exchange", () => exchanges[0]);
      const stopping = server.stop();
      old.send("Host: h\r\n\r\n");
      idle.send("GET /now HTTP/1.1\r\nHost: h\r\n\r\n");
      await Promise.all([old.untilClosed(), idle.untilClosed()]);
      exchange.respond(ok());
      await stopping;
      for (const { text } of [old, idle]) {
        expect(text).toMatch(/^HTTP\/1\.1 200 OK/);
        expect(text.toLowerCase()).toContain("connection: close");
        expect(text.trimEnd().endsWith("late")).toBe(true);
      }
    });

    it("open connections are answered until none has been used for the drain window", async () => {
      const server = await startServer(
        adapter,
        { onRequest: (exchange) => exchange.respond(ok("late")) },
        { drainWindowMs: 300 },
      );
      const clients = await Promise.all([1, 2, 3].map(() => RawClient.connect(server.port)));
      for (const client of clients) {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        await client.response();
      }
      const stopping = server.stop();
      for (const client of clients.slice(1)) {
        await new Promise((resolve) => setTimeout(resolve, 200));
        client.send(GET);
        await client.untilClosed();
        expect(client.text).toMatch(/^HTTP\/1\.1 200 OK[^]*late$/);
      }
      // Nothing comes on the first.
      await stopping;
      for (const client of clients) await client.untilClosed();
    });

    it("stopping closes sockets with 1001", async () => {
      const closes: unknown[] = [];
      const server = await startServer(adapter, {
        onUpgrade: async () => ({
          _tag: "Accept",
          open: () => ({
            onMessage: () => undefined,
            onClose: (...close) => void closes.push(close),
          }),
        }),
      });
      const clients = Array.from(
        { length: 20 },
        () => new WebSocket(`ws://127.0.0.1:${server.port}`),
      );
      const codes: number[] = [];
      for (const ws of clients) ws.on("close", (code) => void codes.push(code));
      const open = () => clients.every((ws) => ws.readyState === WebSocket.OPEN);
      await until("the sockets", open);
      await server.stop();
      await until("the closes", () => codes.length === 20, { seen: () => codes });
      expect(codes).toEqual(codes.map(() => 1001));
      expect(closes).toEqual(codes.map(() => [1001, "Server is stopping", true]));
    });

    it("a handshake that is decided during the stop is refused", async () => {
      const decisions: Array<(decision: UpgradeDecision) => void> = [];
      let opened = 0;
      const server = await startServer(adapter, {
        onUpgrade: () => new Promise((resolve) => decisions.push(resolve)),
      });
      const ws = new WebSocket(`ws://127.0.0.1:${server.port}`);
      let status = 0;
      ws.on("error", () => undefined);
      ws.on("unexpected-response", (_, response) => (status = response.statusCode ?? -1));
      const decide = await until("the handshake", () => decisions[0]);
      const stopping = server.stop();
      decide({
        _tag: "Accept",
        open: () => {
          opened += 1;
          return { onMessage: () => undefined, onClose: () => undefined };
        },
      });
      await until("the refusal", () => status > 0);
      ws.terminate();
      await stopping;
      expect([status, opened]).toEqual([503, 0]);
    });

    it("two servers in one process are independent", async () => {
      await using one = await startServer(adapter, { onRequest: (x) => x.respond(ok("one")) });
      const two = await startServer(adapter, { onRequest: (x) => x.respond(ok("two")) });
      expect(await (await fetch(two.url)).text()).toBe("two");
      await two.stop();
      expect(await (await fetch(one.url)).text()).toBe("one");
    });

    it("a scope that closes before any request closes at once", async () => {
      const scope = Scope.makeUnsafe();
      const options = { hostname: "127.0.0.1", port: 0, headerTimeoutMs: 1_000 };
      const rest = { bodyTimeoutMs: 1_000, headerBytesMax: 8_192, connectionsMax: 10, drainWindowMs: 5_000 }; // prettier-ignore
      const sockets = {
        socketBufferBytesMax: 1_000,
        unsentBytesMax: 1_000,
        bodiesBytesMax: 1_000,
        messageBytesMax: 1_000,
      };
      const listen = adapter.make().listen(
        { ...options, ...rest, ...sockets },
        {
          limitBody: () => 0,
          onRequest: () => undefined,
          onUpgrade: () => new Promise(() => undefined),
          onFailure: () => undefined,
        },
      );
      await Effect.runPromise(Scope.provide(listen, scope));
      const start = performance.now();
      await Effect.runPromise(Scope.close(scope, Exit.void));
      expect(performance.now() - start).toBeLessThan(rest.drainWindowMs);
    });
  });
};
