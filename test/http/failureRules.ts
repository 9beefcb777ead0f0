/** Rules for failing handlers: the caller gets an answer, the log a reason; the server goes on. */
import { describe, expect, it } from "vitest";
import type { HttpHandlers, ServerSocket, SocketHandlers } from "../../core/http/HttpServer.ts";
import { ok, RawClient, startServer, until, type Adapter, type TestServer } from "./kit.ts";
import { client, closeOf } from "./socketRules.ts";

const POST = "POST /p?token=secret HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
const HANDSHAKE =
  "GET /s?token=secret HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

const broken = (): never => {
  throw new Error("broken");
};

const SILENT: SocketHandlers = { onMessage: () => undefined, onClose: () => undefined };

export const failureRules = (adapter: Adapter): void => {
  /** The server answers as before. */
  const lives = async (server: TestServer): Promise<void> => {
    using peer = await RawClient.connect(server.port);
    expect((await peer.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n").response()).statusLine).toMatch(
      /^HTTP\/1\.1 \d\d\d /,
    );
  };
  const reported = (server: TestServer): unknown[] =>
    server.failures.map(({ error, ...where }) => [...Object.values(where), String(error)]);

  describe("a handler that fails", () => {
    const requests: ReadonlyArray<readonly [string, Partial<HttpHandlers>, string]> = [
      ["throws in onRequest", { onRequest: broken }, "onRequest"],
      ["rejects in onRequest", { onRequest: async () => broken() }, "onRequest"],
      ["throws in limitBody", { limitBody: broken }, "limitBody"],
    ];
    it.each(requests)("and %s causes a 500, and is reported", async (_, handlers, during) => {
      await using server = await startServer(adapter, handlers);
      using peer = await RawClient.connect(server.port);
      const { statusLine, body } = await peer.send(POST).response();
      expect([statusLine, body]).toEqual([
        "HTTP/1.1 500 Internal Server Error",
        "Internal Server Error",
      ]);
      expect(reported(server)).toEqual([[during, "POST", "/p", "Error: broken"]]);
      await lives(server);
    });

    it("after it has answered does not change the answer, and is reported", async () => {
      await using server = await startServer(adapter, {
        onRequest: async (exchange) => {
          exchange.respond(ok("fine"));
          broken();
        },
      });
      expect(await (await fetch(server.url)).text()).toBe("fine");
      expect(reported(server)).toEqual([["onRequest", "GET", "/", "Error: broken"]]);
    });

    const upgrades: ReadonlyArray<readonly [string, HttpHandlers["onUpgrade"]]> = [
      ["throws", broken],
      ["rejects", async () => broken()],
      ["decides nothing", (async () => undefined) as never],
    ];
    it.each(upgrades)("and %s in onUpgrade causes a 500, and is reported", async (_, onUpgrade) => {
      await using server = await startServer(adapter, { onUpgrade });
      using peer = await RawClient.connect(server.port);
      const { statusLine } = await peer.send(HANDSHAKE).response();
      expect(statusLine).toBe("HTTP/1.1 500 Internal Server Error");
      expect(server.failures.map(({ during, path }) => [during, path])).toEqual([
        ["onUpgrade", "/s"],
      ]);
      await lives(server);
    });

    it("by refusing an upgrade with an invalid answer causes a 500, and is reported", async () => {
      await using server = await startServer(adapter, {
        onUpgrade: async () => ({
          _tag: "Refuse",
          response: { status: 101, headers: [], body: "" },
        }),
      });
      using peer = await RawClient.connect(server.port);
      expect((await peer.send(HANDSHAKE).response()).statusLine).toContain(" 500 ");
      expect(server.failures.map(({ during }) => during)).toEqual(["respond"]);
      await lives(server);
    });

    const sockets: ReadonlyArray<readonly [string, (socket: ServerSocket) => SocketHandlers]> = [
      ["open", broken],
      ["onMessage", () => ({ ...SILENT, onMessage: broken })],
    ];
    it.each(sockets)("in a socket's %s closes it with 1011", async (during, open) => {
      await using server = await startServer(adapter, {
        onUpgrade: async () => ({ _tag: "Accept", open }),
      });
      using peer = await client(server.port);
      peer.ws.send("x");
      expect(await closeOf(peer)).toEqual([1011, "Internal error"]);
      expect(reported(server)).toEqual([[during, "GET", "/s", "Error: broken"]]);
      await lives(server);
    });

    it("in a socket's onClose is reported", async () => {
      await using server = await startServer(adapter, {
        onUpgrade: async () => ({ _tag: "Accept", open: () => ({ ...SILENT, onClose: broken }) }),
      });
      using peer = await client(server.port);
      peer.ws.close(1000);
      await until("the report", () => server.failures.length > 0);
      expect(reported(server)).toEqual([["onClose", "GET", "/s", "Error: broken"]]);
      await lives(server);
    });
  });
};
