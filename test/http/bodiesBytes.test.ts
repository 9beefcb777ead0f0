/** The total of request bodies (rule 9 of HttpServer.ts), on both adapters. */
import { describe, expect, test } from "vitest";
import type { Exchange } from "../../core/http/HttpServer.ts";
import { adapters, ok, RawClient, startServer, until, valuesOf } from "./kit.ts";

const MIB = 1024 * 1024;
const TOTAL = 8 * MIB;
const TEST_MS_MAX = 300_000;

describe.each(adapters)("a server on $name", (adapter) => {
  const start = async () => {
    const waiting: Exchange[] = [];
    const refused: number[] = [];
    const server = await startServer(
      adapter,
      {
        onRequest: (exchange) => {
          if (exchange.request.target === "/wait") waiting.push(exchange);
          else exchange.respond(ok(String(exchange.body.length)));
        },
        onBodyRefused: (_, status) => void refused.push(status),
      },
      // Longer than any test: no body is refused because it is late.
      { bodiesBytesMax: TOTAL, bodyTimeoutMs: TEST_MS_MAX },
    );
    const callers: RawClient[] = [];
    /** Sends so much of a body of the declared length; `undefined`: a chunked body. */
    const post = async (sent: number, declared: number | undefined, path = "/") => {
      const caller = await RawClient.connect(server.port);
      callers.push(caller);
      const framing =
        declared === undefined ? "Transfer-Encoding: chunked" : `Content-Length: ${declared}`;
      caller.send(`POST ${path} HTTP/1.1\r\nHost: h\r\n${framing}\r\n\r\n`);
      const body = "x".repeat(sent);
      caller.send(declared === undefined ? `${sent.toString(16)}\r\n${body}\r\n` : body);
      return caller;
    };
    const stop = async () => {
      for (const caller of callers) caller[Symbol.dispose]();
      await server.stop();
    };
    return { post, waiting, refused, [Symbol.asyncDispose]: stop };
  };
  const answerOf = async (caller: RawClient) => {
    await until("an answer", () => caller.text.includes("\r\n\r\n"));
    return caller.response();
  };

  test.each([
    ["a declared length", 6 * MIB],
    ["chunks", undefined],
  ])(
    "past the total, the largest body of %s that still arrives gets 503, and another is read",
    async (_, declared) => {
      await using server = await start();
      const large = await server.post(5 * MIB, declared);
      // In either order of arrival: it counts until it is answered.
      await server.post(3 * MIB, 3 * MIB, "/wait");
      const other = await until("the other request", () => server.waiting[0]);
      expect(other.body.length).toBe(3 * MIB);
      const refusal = await answerOf(large);
      expect(refusal.statusLine).toBe("HTTP/1.1 503 Service Unavailable");
      expect(valuesOf(refusal, "retry-after")).toEqual(["1"]);
      expect(server.refused).toEqual([503]);
    },
    TEST_MS_MAX,
  );

  test(
    "a body counts until its request is answered; those up to 64 KiB are read anyway",
    async () => {
      await using server = await start();
      const waits = await server.post(7 * MIB, 7 * MIB, "/wait");
      const exchange = await until("the request", () => server.waiting[0]);
      const second = await answerOf(await server.post(2 * MIB, 2 * MIB));
      expect(second.statusLine).toBe("HTTP/1.1 503 Service Unavailable");
      const small = await server.post(64 * 1024, 64 * 1024);
      expect((await answerOf(small)).body).toBe(String(64 * 1024));
      expect(waits.text).toBe("");
      exchange.respond(ok());
      await answerOf(waits);
      const third = await answerOf(await server.post(7 * MIB, 7 * MIB));
      expect(third.body).toBe(String(7 * MIB));
    },
    TEST_MS_MAX,
  );

  test(
    "a body whose caller has gone does not count",
    async () => {
      await using server = await start();
      for (let round = 0; round < 3; round += 1) {
        const waits = await server.post(7 * MIB, 7 * MIB, "/wait");
        const exchange = await until("the request", () => server.waiting[round]);
        waits[Symbol.dispose]();
        await until("the abort", () => exchange.aborted.fired);
      }
      expect(server.refused).toEqual([]);
    },
    TEST_MS_MAX,
  );
});
