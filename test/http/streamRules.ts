/** Rules for answers whose body is still being made when they begin. */
import { describe, expect, it } from "vitest";
import type { BodyReader, Exchange } from "../../core/http/HttpServer.ts";
import { RawClient, startServer, until, type Adapter } from "./kit.ts";

const GET = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A body that the test makes piece by piece; says what was asked of it. */
class Source implements BodyReader {
  reads = 0;
  cancelled = false;
  private readonly ready: Array<Promise<ReadableStreamReadResult<Uint8Array>>> = [];
  private readonly waiting: Array<(result: Promise<never> | object) => void> = [];

  give(text: string): void {
    this.settle(Promise.resolve({ done: false, value: bytes(text) }));
  }
  end(): void {
    this.settle(Promise.resolve({ done: true, value: undefined }));
  }
  fail(): void {
    const failed = Promise.reject(new Error("the source failed"));
    failed.catch(() => undefined);
    this.settle(failed);
  }
  read(): Promise<ReadableStreamReadResult<Uint8Array>> {
    this.reads++;
    return this.ready.shift() ?? new Promise((resolve) => this.waiting.push(resolve as never));
  }
  async cancel(): Promise<void> {
    this.cancelled = true;
    this.end();
  }
  private settle(result: Promise<ReadableStreamReadResult<Uint8Array>>): void {
    const next = this.waiting.shift();
    if (next === undefined) this.ready.push(result);
    else next(result);
  }
}

export const streamRules = (adapter: Adapter): void => {
  describe("a streamed answer", () => {
    const HEAD = {
      status: 200,
      headers: [["content-type", "text/event-stream"]] as const,
      body: "",
    };
    const serve = (source: Source, body: Uint8Array | string = "") =>
      startServer(adapter, { onRequest: (exchange) => exchange.stream({ ...HEAD, body }, source) });

    it("sends its head before the body, and each piece before the next is made", async () => {
      const source = new Source();
      await using server = await serve(source);
      const head = fetch(server.url);
      // uWebSockets.js sends the head with the first piece.
      if (adapter.name === "uws") source.give("data: 0\n\n");
      const response = await head;
      expect(response.headers.get("content-type")).toBe("text/event-stream");
      expect(response.headers.get("content-length")).toBeNull();
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      if (adapter.name === "uws") expect((await reader.read()).value).toBe("data: 0\n\n");
      for (const piece of ["data: 1\n\n", "data: grüße\n\n"]) {
        source.give(piece);
        expect((await reader.read()).value).toBe(piece);
      }
      source.end();
      expect((await reader.read()).done).toBe(true);
    });

    it("begins with what is available; an empty piece is not its end", async () => {
      const source = new Source();
      await using server = await serve(source, "first ");
      source.give("");
      source.give("second");
      source.end();
      expect(await (await fetch(server.url)).text()).toBe("first second");
    });

    it("leaves its connection usable for the next request", async () => {
      const source = new Source();
      await using server = await startServer(adapter, {
        onRequest: (exchange) =>
          exchange.request.target === "/"
            ? exchange.stream(HEAD, source)
            : exchange.respond({ status: 200, headers: [], body: "next" }),
      });
      using client = await RawClient.connect(server.port);
      source.give("x");
      source.end();
      client.send(GET);
      await until("the end of it", () => client.text.endsWith("0\r\n\r\n"), {
        seen: () => client.text,
      });
      client.text = "";
      expect((await client.send(GET.replace("/", "/next")).response()).body).toBe("next");
    });

    it("is read no faster than its caller takes it", async () => {
      const MIB = 1024 * 1024;
      const piece = bytes("x".repeat(MIB));
      let reads = 0;
      const endless: BodyReader = {
        read: async () => (reads++, { done: false, value: piece }),
        cancel: async () => undefined,
      };
      await using server = await startServer(adapter, {
        onRequest: (exchange) => exchange.stream(HEAD, endless),
      });
      using client = await RawClient.connect(server.port);
      client.socket.pause();
      client.send(GET);
      // It stops by itself, at what sockets and kernel hold.
      let before = -1;
      await until("it to stop", () => {
        const stopped = reads > 0 && reads === before;
        before = reads;
        return stopped;
      });
      expect(reads).toBeLessThan(64);
      const stoppedAt = reads;
      client.socket.resume();
      await until("it to go on", () => reads > stoppedAt + 8, { seen: () => reads });
    });

    it("sends a large piece whole while the next one is still being made", async () => {
      // Far more than the kernel takes at once.
      const large = "x".repeat(12 * 1024 * 1024);
      const source = new Source();
      await using server = await serve(source);
      const response = fetch(server.url);
      source.give(large);
      const reader = (await response).body!.getReader();
      for (const _piece of [1, 2]) {
        for (let left = large.length; left > 0;) left -= (await reader.read()).value!.length;
        source.give(large);
      }
      for (let left = large.length; left > 0;) left -= (await reader.read()).value!.length;
      source.end();
      expect((await reader.read()).done).toBe(true);
    });

    it("is cancelled when its caller leaves", async () => {
      const source = new Source();
      await using server = await serve(source);
      const controller = new AbortController();
      source.give("x");
      const response = await fetch(server.url, { signal: controller.signal });
      await response.body!.getReader().read();
      controller.abort();
      await until("the cancellation", () => source.cancelled);
    });

    // uWebSockets.js cuts a connection with a request behind an unanswered one.
    if (adapter.name === "node")
      it("behind an unanswered request is cancelled when its caller leaves", async () => {
        const sources: Source[] = [];
        await using server = await startServer(adapter, {
          onRequest: (exchange) => {
            if (exchange.request.target === "/unanswered") return;
            const source = new Source();
            sources.push(source);
            exchange.stream(HEAD, source);
          },
        });
        using client = await RawClient.connect(server.port);
        client.send(`${GET.replace("/", "/unanswered")}${GET}${GET}`);
        await until("both streams", () => sources.length === 2);
        client.socket.destroy();
        await until("both to be cancelled", () => sources.every(({ cancelled }) => cancelled));
      });

    it("that fails cuts the connection, so that the caller does not take it for complete", async () => {
      const source = new Source();
      await using server = await serve(source);
      using client = await RawClient.connect(server.port);
      client.send(GET);
      source.give("half");
      await until("half of it", () => client.text.includes("half"), { seen: () => client.text });
      source.fail();
      await client.untilClosed();
      expect(client.text).not.toContain("0\r\n\r\n");
    });

    it("has no body for HEAD and 304, and its source is cancelled", async () => {
      const sources: Source[] = [];
      await using server = await startServer(adapter, {
        onRequest: (exchange: Exchange) => {
          const source = new Source();
          sources.push(source);
          const status = exchange.request.method === "HEAD" ? 200 : 304;
          exchange.stream({ ...HEAD, status }, source);
        },
      });
      for (const method of ["HEAD", "GET"]) {
        const response = await fetch(server.url, { method });
        expect(await response.text()).toBe("");
      }
      await until("both to be cancelled", () => sources.every(({ cancelled }) => cancelled));
    });

    it("can be sent only once, like any answer", async () => {
      const source = new Source();
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          exchange.stream(HEAD, source);
          exchange.respond({ status: 200, headers: [], body: "" });
        },
      });
      source.end();
      await (await fetch(server.url)).text();
      expect(server.failures.map(({ during }) => during)).toEqual(["respond"]);
    });

    it("with an invalid head is a 500, and the body is cancelled", async () => {
      const source = new Source();
      await using server = await startServer(adapter, {
        onRequest: (exchange) => exchange.stream({ ...HEAD, status: 101 }, source),
      });
      expect((await fetch(server.url)).status).toBe(500);
      await until("the rest to be cancelled", () => source.cancelled);
      expect(server.failures.map(({ during }) => during)).toEqual(["respond"]);
    });
  });
};
