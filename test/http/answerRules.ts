/** Rules for how an answer goes out, and for callers that don't stay for it. */
import { createHash, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Exchange, HttpResponse } from "../../core/http/HttpServer.ts";
import { ok, RawClient, startServer, until, valuesOf, type Adapter } from "./kit.ts";

const GET = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

const answering = (adapter: Adapter, response: HttpResponse) =>
  startServer(adapter, { onRequest: (exchange) => exchange.respond(response) });

export const answerRules = (adapter: Adapter): void => {
  describe("answers", () => {
    it("have the reason phrase of their status", async () => {
      let status = 200;
      await using server = await startServer(adapter, {
        onRequest: (exchange) => exchange.respond({ status, headers: [], body: "x" }),
      });
      const lines: ReadonlyArray<readonly [number, string]> = [
        [201, "Created"],
        [202, "Accepted"],
        [301, "Moved Permanently"],
        [401, "Unauthorized"],
        [413, "Content Too Large"],
        [429, "Too Many Requests"],
        [500, "Internal Server Error"],
        [503, "Service Unavailable"],
        [299, "Unknown"],
        [599, "Unknown"],
      ];
      using client = await RawClient.connect(server.port);
      for (const [code, reason] of lines) {
        status = code;
        client.send(GET);
        expect((await client.response()).statusLine).toBe(`HTTP/1.1 ${code} ${reason}`);
      }
    });

    it.each(["\xe9t\xe9 \xff", "caf\xe9 \u65e5\u672c", "plain"])(
      "send the text %j as UTF-8",
      async (body) => {
        await using server = await answering(adapter, { status: 200, headers: [], body });
        const answer = await fetch(`http://127.0.0.1:${server.port}/`);
        expect(Buffer.from(await answer.arrayBuffer())).toEqual(Buffer.from(body, "utf8"));
      },
    );

    it("send repeated headers one by one, and Latin-1 as one byte per character", async () => {
      await using server = await answering(adapter, {
        status: 200,
        headers: [
          ["set-cookie", "a=1; Path=/"],
          ["Set-Cookie", "b=2"],
          ["x-name", "caf\xe9"],
        ],
        body: "",
      });
      using client = await RawClient.connect(server.port);
      const response = await client.send(GET).response();
      expect(valuesOf(response, "set-cookie")).toEqual(["a=1; Path=/", "b=2"]);
      expect(valuesOf(response, "x-name")).toEqual(["caf\xe9"]);
      expect(valuesOf(response, "content-length")).toEqual(["0"]);
    });

    it("send text as UTF-8, with its length in bytes", async () => {
      await using server = await answering(adapter, ok("grüße 🙂"));
      const response = await fetch(server.url);
      expect(response.headers.get("content-length")).toBe("12");
      expect(await response.text()).toBe("grüße 🙂");
    });

    it("send an unpaired surrogate as U+FFFD", async () => {
      await using server = await answering(adapter, ok("a\ud83d"));
      const response = await fetch(server.url);
      expect(new Uint8Array(await response.arrayBuffer())).toEqual(
        new TextEncoder().encode("a\ufffd"),
      );
    });

    it("set framing and date headers themselves, whatever the handler says", async () => {
      await using server = await answering(adapter, {
        status: 200,
        headers: [
          ["Content-Length", "99"],
          ["transfer-encoding", "chunked"],
          ["Date", "yesterday"],
          ["Upgrade", "h2c"],
          ["connection", "keep-alive"],
        ],
        body: "four",
      });
      using client = await RawClient.connect(server.port);
      const response = await client.send(GET).response();
      expect(response.body).toBe("four");
      expect(valuesOf(response, "content-length")).toEqual(["4"]);
      expect(valuesOf(response, "transfer-encoding")).toEqual([]);
      expect(valuesOf(response, "upgrade")).toEqual([]);
      expect(valuesOf(response, "date")).toHaveLength(1);
      expect(valuesOf(response, "date")).not.toEqual(["yesterday"]);
    });

    it("end the connection after an answer with connection: close", async () => {
      const headers = [["connection", "close"]] as const;
      await using server = await answering(adapter, { status: 200, headers, body: "bye" });
      using client = await RawClient.connect(server.port);
      const response = await client.send(GET).response();
      expect([response.body, valuesOf(response, "connection")]).toEqual(["bye", ["close"]]);
      await client.untilClosed();
    });

    it("give a HEAD request the length and no body", async () => {
      await using server = await startServer(adapter, {
        onRequest: (exchange) => exchange.respond(ok("12345")),
      });
      using client = await RawClient.connect(server.port);
      client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
      expect(valuesOf(await client.response({ bodiless: true }), "content-length")).toEqual(["5"]);
      expect((await client.send(GET).response()).body).toBe("12345");
    });

    it("give a HEAD request without an answer body no length, as a GET's may differ", async () => {
      await using server = await startServer(adapter, {
        onRequest: (exchange) =>
          exchange.respond(ok(exchange.request.method === "HEAD" ? "" : "12345")),
      });
      using client = await RawClient.connect(server.port);
      client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
      const { headers } = await client.response({ bodiless: true });
      expect(headers.filter(([name]) => /^(?:content-length|transfer-)/i.test(name))).toEqual([]);
      expect((await client.send(GET).response()).body).toBe("12345");
    });

    it.each([204, 304])("send a %i without body and length", async (status) => {
      let body = "ignored";
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          exchange.respond({ status, headers: [], body });
          body = "";
        },
      });
      using client = await RawClient.connect(server.port);
      for (let round = 0; round < 2; round += 1) {
        const response = await client.send(GET).response();
        expect(response.statusLine).toMatch(`HTTP/1.1 ${status} `);
        expect(valuesOf(response, "content-length")).toEqual([]);
      }
      expect(client.text).toBe("");
    });

    it("reach a slow reader whole, however large", async () => {
      const body = randomBytes(24 * 1024 * 1024 + 7);
      await using server = await answering(adapter, ok(body));
      using client = await RawClient.connect(server.port);
      client.socket.removeAllListeners("data").setEncoding("binary");
      const hash = createHash("sha256");
      let received = 0;
      let head = "";
      client.socket.on("data", (chunk: string) => {
        const end = head.includes("\r\n\r\n") ? 0 : chunk.indexOf("\r\n\r\n") + 4;
        head += chunk.slice(0, end);
        hash.update(chunk.slice(end), "latin1");
        received += chunk.length - end;
        // Reading in fits and starts makes the server meet a full buffer many times.
        client.socket.pause();
        setImmediate(() => client.socket.resume());
      });
      client.send(GET);
      const all = () => received >= body.length;
      await until("the whole body", all, { seen: () => received });
      expect(hash.digest("hex")).toBe(createHash("sha256").update(body).digest("hex"));
    });

    it("count only once: a second is reported", async () => {
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          exchange.respond(ok("first"));
          exchange.respond(ok("second"));
        },
      });
      expect(await (await fetch(server.url)).text()).toBe("first");
      expect(server.failures.map(({ during, error }) => [during, String(error)])).toEqual([
        ["respond", "Error: a request was answered twice"],
      ]);
    });

    const refused: ReadonlyArray<readonly [string, HttpResponse]> = [
      [
        "a line break in a value",
        { status: 200, headers: [["x", "a\r\nset-cookie: b"]], body: "" },
      ],
      ["a character past Latin-1", { status: 200, headers: [["x", "🙂"]], body: "" }],
      ["a name that is none", { status: 200, headers: [["x: y\r\n", "z"]], body: "" }],
      ["an interim status", { status: 101, headers: [], body: "" }],
      ["a status that is no number", { status: Number.NaN, headers: [], body: "" }],
      ["a value that is no text", { status: 200, headers: [["x", 5 as never]], body: "" }],
      ["headers that are none", { status: 200, headers: undefined as never, body: "" }],
      ["a body that is none", { status: 200, headers: [], body: {} as never }],
    ];
    it.each(refused)("with %s are reported, and the caller gets 500", async (_, response) => {
      await using server = await answering(adapter, response);
      using client = await RawClient.connect(server.port);
      client.send("GET /a?token=s HTTP/1.1\r\nHost: h\r\n\r\n");
      const answer = await client.response();
      expect([answer.statusLine, answer.body, valuesOf(answer, "set-cookie")]).toEqual([
        "HTTP/1.1 500 Internal Server Error",
        "Internal Server Error",
        [],
      ]);
      expect(server.failures).toEqual([
        { during: "respond", method: "GET", path: "/a", error: expect.any(Error) as Error },
      ]);
    });

    it("are ignored when the caller has left, and the signal fires", async () => {
      const exchanges: Exchange[] = [];
      await using server = await startServer(adapter, {
        onRequest: (exchange) => void exchanges.push(exchange),
      });
      using client = await RawClient.connect(server.port);
      client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
      const exchange = await until("the exchange", () => exchanges[0]);
      let fired = false;
      exchange.aborted.signal.addEventListener("abort", () => (fired = true));
      expect(exchange.aborted.fired).toBe(false);
      client.socket.destroy();
      await until("the abort", () => fired);
      exchange.respond(ok());
    });

    it("fire a signal that is first read after the caller left", async () => {
      const exchanges: Exchange[] = [];
      await using server = await startServer(adapter, {
        onRequest: (exchange) => void exchanges.push(exchange),
      });
      using client = await RawClient.connect(server.port);
      using witness = await RawClient.connect(server.port);
      client.send(GET);
      const exchange = await until("the exchange", () => exchanges[0]);
      client.socket.destroy();
      witness.send(GET);
      const other = await until("the witness", () => exchanges[1]);
      witness.socket.destroy();
      await until("the witness's abort", () => other.aborted.fired);
      expect(exchange.aborted.fired).toBe(true);
    });

    it("fire the signal when the caller leaves in the middle of a large answer", async () => {
      const exchanges: Exchange[] = [];
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          exchanges.push(exchange);
          exchange.respond(ok(new Uint8Array(32 * 1024 * 1024)));
        },
      });
      using client = await RawClient.connect(server.port);
      client.send(GET);
      await until("some of the answer", () => client.text.length > 0);
      client.socket.destroy();
      await until("the abort", () => exchanges[0]?.aborted.fired);
    });

    it("do not fire the signal for a caller that received its answer", async () => {
      const exchanges: Exchange[] = [];
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          exchanges.push(exchange);
          exchange.respond(ok());
        },
      });
      using client = await RawClient.connect(server.port);
      await client.send(GET).response();
      client.socket.destroy();
      using witness = await RawClient.connect(server.port);
      await witness.send(GET).response();
      expect(exchanges.map((exchange) => exchange.aborted.fired)).toEqual([false, false]);
    });
  });
};
