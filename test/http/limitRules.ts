/** Rules for callers that send too much, too slowly, or too often. */
import { describe, expect, it } from "vitest";
import { ok, RawClient, startServer, until, valuesOf, type Adapter } from "./kit.ts";

const POST = "POST / HTTP/1.1\r\nHost: h\r\n";
const LIMIT = 1_000;

/** A server that counts what reaches its handler. */
export const counting = async (adapter: Adapter, options = {}) => {
  const handled: number[] = [];
  const server = await startServer(
    adapter,
    {
      limitBody: (request) => (request.target === "/large" ? LIMIT * 1_000 : LIMIT),
      onRequest: (exchange) => {
        handled.push(exchange.body.byteLength);
        exchange.respond(ok());
      },
    },
    options,
  );
  return { handled, server };
};

export const limitRules = (adapter: Adapter): void => {
  describe("limits", () => {
    it("a body whose declared length exceeds the limit gets 413 before it is sent", async () => {
      const { handled, server } = await counting(adapter);
      await using _ = server;
      using client = await RawClient.connect(server.port);
      const response = await client.send(`${POST}Content-Length: ${LIMIT + 1}\r\n\r\n`).response();
      expect(response.statusLine).toBe("HTTP/1.1 413 Content Too Large");
      expect(valuesOf(response, "connection")).toEqual(["close"]);
      expect(handled).toEqual([]);
    });

    it("its own answers have the handler's headers for them", async () => {
      await using server = await startServer(adapter, {
        limitBody: () => LIMIT,
        refusalHeaders: ({ target }) => {
          if (target === "/broken") throw new Error("broken");
          return [["x-page", target]];
        },
        onRequest: () => Promise.reject(new Error("failed")),
      });
      for (const [status, head] of [
        [413, `Content-Length: ${LIMIT + 1}\r\n\r\n`],
        [500, "Content-Length: 1\r\n\r\nx"],
      ] as const) {
        using client = await RawClient.connect(server.port);
        const response = await client.send(`${POST}${head}`).response();
        expect(response.statusLine).toContain(String(status));
        expect(valuesOf(response, "x-page")).toEqual(["/"]);
      }
      using client = await RawClient.connect(server.port);
      const broken = `POST /broken HTTP/1.1\r\nHost: h\r\nContent-Length: ${LIMIT + 1}\r\n\r\n`;
      expect((await client.send(broken).response()).statusLine).toContain("413");
      expect(server.failures.map(({ during }) => during)).toEqual(["onRequest", "refusalHeaders"]);
    });

    it("a caller that is still sending can read the 413", async () => {
      const { handled, server } = await counting(adapter);
      await using _ = server;
      for (let round = 0; round < 5; round += 1) {
        const response = await fetch(server.url, {
          method: "POST",
          body: new Uint8Array(8 * 1024 * 1024),
        });
        expect(response.status).toBe(413);
      }
      expect(handled).toEqual([]);
    });

    it("a chunked body gets 413 when it exceeds the limit, and the connection is closed", async () => {
      const { handled, server } = await counting(adapter);
      await using _ = server;
      using client = await RawClient.connect(server.port);
      client.send(`${POST}Transfer-Encoding: chunked\r\n\r\n`);
      client.send(`3e8\r\n${"x".repeat(LIMIT)}\r\n`);
      await new Promise((resolve) => setImmediate(resolve));
      expect(client.text).toBe("");
      const response = await client.send("1\r\nx\r\n").response();
      expect(response.statusLine).toBe("HTTP/1.1 413 Content Too Large");
      await client.untilClosed();
      expect(handled).toEqual([]);
    });

    it("a body of exactly the limit is accepted, by length and in chunks", async () => {
      const { handled, server } = await counting(adapter);
      await using _ = server;
      using client = await RawClient.connect(server.port);
      const body = "x".repeat(LIMIT);
      await client.send(`${POST}Content-Length: ${LIMIT}\r\n\r\n${body}`).response();
      const chunks = `1f4\r\n${body.slice(500)}\r\n`.repeat(2);
      await client.send(`${POST}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`).response();
      expect(handled).toEqual([LIMIT, LIMIT]);
    });

    it("the limit may differ by request", async () => {
      const { handled, server } = await counting(adapter);
      await using _ = server;
      const post = (path: string) =>
        fetch(`${server.url}${path}`, { method: "POST", body: "x".repeat(LIMIT * 2) });
      expect((await post("/large")).status).toBe(200);
      expect((await post("/small")).status).toBe(413);
      expect(handled).toEqual([LIMIT * 2]);
    });

    const times = { headerTimeoutMs: 400, bodyTimeoutMs: 400 };
    const slow = [
      ["by length, half of it sent", `${POST}Content-Length: 10\r\n\r\nhalf`],
      ["by length, none of it sent", `${POST}Content-Length: 10\r\n\r\n`],
      ["in chunks, half of it sent", `${POST}Transfer-Encoding: chunked\r\n\r\n5\r\nha`],
      ["in chunks, none of it sent", `${POST}Transfer-Encoding: chunked\r\n\r\n`],
    ] as const;
    it.each(slow)("a body that does not arrive in time gets 408: %s", async (_, sent) => {
      const { handled, server } = await counting(adapter, times);
      await using _server = server;
      using client = await RawClient.connect(server.port);
      client.send(sent);
      await client.untilClosed();
      expect(client.text).toMatch(/^HTTP\/1\.1 408 Request Timeout/);
      expect(handled).toEqual([]);
    });

    it("a caller that leaves in the middle of its body is dropped", async () => {
      const { handled, server } = await counting(adapter, times);
      await using _ = server;
      using client = await RawClient.connect(server.port);
      client.send(`${POST}Content-Length: 10\r\n\r\nhalf`);
      await new Promise((resolve) => setImmediate(resolve));
      client.socket.destroy();
      // The next one's timeout comes after the first one's would have: both are behind us then.
      using witness = await RawClient.connect(server.port);
      await witness.send(`${POST}Content-Length: 10\r\n\r\nhalf`).untilClosed();
      expect(handled).toEqual([]);
    });

    it("a handler may take longer than the time limit of a body", async () => {
      await using server = await startServer(
        adapter,
        { onRequest: (exchange) => void setTimeout(() => exchange.respond(ok("late")), 900) },
        { headerTimeoutMs: 200, bodyTimeoutMs: 200 },
      );
      const response = await fetch(server.url, { method: "POST", body: "x" });
      expect(await response.text()).toBe("late");
    });

    it("a head of 12 KiB is accepted under a limit of 16, and one of 20 gets 431", async () => {
      const { handled, server } = await counting(adapter, { headerBytesMax: 16 * 1024 });
      await using _ = server;
      const head = (bytes: number) =>
        `GET / HTTP/1.1\r\nHost: h\r\nX: ${"x".repeat(bytes)}\r\n\r\n`;
      using small = await RawClient.connect(server.port);
      expect((await small.send(head(12_000)).response()).statusLine).toBe("HTTP/1.1 200 OK");
      for (const bytes of [20_000, 100_000]) {
        using large = await RawClient.connect(server.port);
        await large.send(head(bytes)).untilClosed();
        expect(large.text).toMatch(/^HTTP\/1\.1 431 Request Header Fields Too Large/);
      }
      expect(handled).toEqual([0]);
    });

    it("connections past the limit are closed as they arrive, and closed ones free their place", async () => {
      await using server = await startServer(adapter, {}, { connectionsMax: 2 });
      const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
      using first = await RawClient.connect(server.port);
      using second = await RawClient.connect(server.port);
      await first.send(get).response();
      await second.send(get).response();
      using third = await RawClient.connect(server.port);
      await third.untilClosed();
      await second.send(get).response();
      first.socket.destroy();
      const served = async () => {
        using next = await RawClient.connect(server.port);
        next.send(get);
        await until("an answer or the end", () => next.closed || next.text !== "");
        return next.text !== "";
      };
      while (!(await served())) await new Promise((resolve) => setImmediate(resolve));
    });
  });
};
