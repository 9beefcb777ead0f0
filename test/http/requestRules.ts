/** Rules for what a handler sees of a request, and for requests that it must never see. */
import { createHash, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { echo, echoed, ok, RawClient, startServer, type Adapter } from "./kit.ts";

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

const UPGRADE =
  "Connection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

const NODE_MAJOR = Number(process.versions.node.split(".")[0]);
const DECODES_HEADERS = NODE_MAJOR > 20;
// The library's build for Node 20 answers 505 where the rest of a request line comes later.
const NEEDS_WHOLE_LINE = NODE_MAJOR <= 20;

export const requestRules = (adapter: Adapter): void => {
  describe("requests", () => {
    it("reach the handler with the target as it was sent", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      const targets = [
        "/",
        "//a//b/../c",
        "/a%20b/%2F%zz/~'!?q=%20&q=2&empty=&=x",
        "/x?",
        "/x?a?b#c",
        "/agents/repo-agent/owner-repo?_pk=1",
      ];
      for (const target of targets) {
        client.send(`GET ${target} HTTP/1.1\r\nHost: h\r\n\r\n`);
        expect(echoed(await client.response()).target).toBe(target);
      }
    });

    it("are refused if the target is not a path or contains raw UTF-8", async () => {
      await using server = await startServer(adapter);
      for (const target of ["*", "http://h/x", "h:80", "/caf\xc3\xa9"]) {
        using client = await RawClient.connect(server.port);
        client.send(`OPTIONS ${target} HTTP/1.1\r\nHost: h\r\n\r\n`);
        const { statusLine } = await client.response();
        expect(statusLine).toMatch(/^HTTP\/1\.1 (400|505) /);
        await client.untilClosed();
      }
    });

    it("reach the handler with any method as it was sent", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"]) {
        client.send(`${method} /m HTTP/1.1\r\nHost: h\r\n\r\n`);
        expect(echoed(await client.response()).method).toBe(method);
      }
    });

    it("keep each value of repeated headers, in order, under the lower-case name", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      client.send("GET / HTTP/1.1\r\nHost: h\r\nX-A: 1, 2\r\nx-a: 3\r\nCookie: a=1\r\n");
      client.send("User-Agent: one\r\nUser-Agent: two\r\nX-A:\r\ncookie: b=2\r\n\r\n");
      const { headers } = echoed(await client.response());
      expect(headers["x-a"]).toEqual(["1, 2", "3", ""]);
      expect(headers["cookie"]).toEqual(["a=1", "b=2"]);
      expect(headers["user-agent"]).toEqual(["one", "two"]);
    });

    it("have headers with one character per byte", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      client.send("GET / HTTP/1.1\r\nHost: h\r\n");
      client.send("X-B: caf\xc3\xa9!\r\nX-B: caf\xc3\xa9.\r\n\r\n");
      const { headers } = echoed(await client.response());
      expect(headers["x-b"]).toEqual(["caf\xc3\xa9!", "caf\xc3\xa9."]);
    });

    // The library's build for Node 24 gives no bytes, only what it decoded.
    it.skipIf(adapter.name === "uws" && DECODES_HEADERS)(
      "keep a header's bytes that are not valid UTF-8, too",
      async () => {
        await using server = await startServer(adapter);
        using client = await RawClient.connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: h\r\nX-A: (\xe9\xff)\r\n\r\n");
        expect(echoed(await client.response()).headers["x-a"]).toEqual(["(\xe9\xff)"]);
      },
    );

    it("treat a header named like a property of objects as an ordinary header", async () => {
      let missing: unknown = "not asked";
      let given: unknown;
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          missing = exchange.request.headers["__proto__"];
          given = exchange.request.headers["constructor"];
          exchange.respond(ok());
        },
      });
      using client = await RawClient.connect(server.port);
      client.send("GET / HTTP/1.1\r\nHost: h\r\nConstructor: x\r\n\r\n");
      await client.response();
      expect({ missing, given }).toEqual({ missing: undefined, given: ["x"] });
    });

    it("have the caller's address as plain IPv4, also on a dual-stack socket", async () => {
      for (const hostname of ["127.0.0.1", "::"]) {
        await using server = await startServer(adapter, {}, { hostname });
        using client = await RawClient.connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        const { remoteAddress, secure } = echoed(await client.response());
        expect({ remoteAddress, secure }).toEqual({ remoteAddress: "127.0.0.1", secure: false });
      }
    });

    it("are read whole, wherever the packets of their head are split", async () => {
      await using server = await startServer(adapter);
      const line = "GET /agents/a/b?c=d HTTP/1.1\r\n";
      const head = `${line}Host: h\r\nX-A: b\r\n\r\n`;
      const from = adapter.name === "uws" && NEEDS_WHOLE_LINE ? line.length : 1;
      for (let at = from; at < head.length; at++) {
        using client = await RawClient.connect(server.port);
        client.send(head.slice(0, at));
        // Answers on another connection: the server has read the first packet.
        await (await fetch(server.url)).text();
        client.send(head.slice(at));
        const { target, headers } = echoed(await client.response());
        expect({ at, target, a: headers["x-a"] }).toEqual({
          at,
          target: "/agents/a/b?c=d",
          a: ["b"],
        });
      }
    });

    it("deliver a body whole, however it is split", async () => {
      const bodies: Buffer[] = [];
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          bodies.push(Buffer.from(exchange.body));
          exchange.respond(ok());
        },
      });
      const large = randomBytes(9_000_001);
      for (const body of [Buffer.from("x"), randomBytes(70_000), large]) {
        const response = await fetch(server.url, { method: "POST", body });
        expect(response.status).toBe(200);
        expect(sha256(bodies.at(-1) ?? Buffer.alloc(0))).toBe(sha256(body));
      }
    });

    it("deliver a chunked body whole", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
      for (const piece of ["5\r\nhel", "lo\r\n", "1\r\n \r\n6\r\nworld!\r\n", "0\r\n\r\n"]) {
        client.send(piece);
        await new Promise((resolve) => setImmediate(resolve));
      }
      const { body } = echoed(await client.response());
      expect(Buffer.from(body, "base64").toString()).toBe("hello world!");
    });

    it("keep the bodies of two concurrent requests apart", async () => {
      const seen: string[] = [];
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          setImmediate(() => {
            seen.push(Buffer.from(exchange.body).toString());
            exchange.respond(ok(exchange.body));
          });
        },
      });
      const send = async (letter: string) => {
        const response = await fetch(server.url, { method: "POST", body: letter.repeat(2_000) });
        return (await response.text()) === letter.repeat(2_000);
      };
      const answers = await Promise.all(Array.from("abcdefghijklmnop", send));
      expect(answers).toEqual(answers.map(() => true));
    });

    it("are sent 100 Continue before the body is read", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      client.send(
        "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
      );
      expect((await client.response()).statusLine).toBe("HTTP/1.1 100 Continue");
      client.send("hi");
      expect(Buffer.from(echoed(await client.response()).body, "base64").toString()).toBe("hi");
    });

    it("are served one after another on a connection", async () => {
      await using server = await startServer(adapter, {
        onRequest: (exchange) => void setImmediate(() => echo(exchange)),
      });
      using client = await RawClient.connect(server.port);
      for (const target of ["/1", "/2", "/3"]) {
        client.send(`POST ${target} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx`);
        expect(echoed(await client.response()).target).toBe(target);
      }
    });

    it("are answered in order when pipelined", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      const one = (n: number) => `POST /${n} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n${n}`;
      client.send([1, 2, 3, 4].map(one).join(""));
      for (const n of [1, 2, 3, 4]) {
        const { target, body } = echoed(await client.response());
        expect([target, Buffer.from(body, "base64").toString()]).toEqual([`/${n}`, `${n}`]);
      }
    });

    it("ignore an offer to upgrade to another protocol", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      client.send("POST /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n");
      client.send("Upgrade: h2c\r\nHTTP2-Settings: AAMA\r\nContent-Length: 4\r\n\r\nbody");
      const { target, body } = echoed(await client.response());
      expect([target, Buffer.from(body, "base64").toString()]).toEqual(["/x", "body"]);
      client.send("GET /y HTTP/1.1\r\nHost: h\r\n\r\n");
      expect(echoed(await client.response()).target).toBe("/y");
    });

    const ambiguous: ReadonlyArray<readonly [string, string]> = [
      ["both lengths", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
      ["two lengths", "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"],
      ["a length that is a list", "Content-Length: 3, 3\r\n\r\nabc"],
      ["a length that is no number", "Content-Length: 0x3\r\n\r\nabc"],
      ["a negative length", "Content-Length: -1\r\n\r\n"],
      ["a coding that hides chunked", "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"],
      ["an unknown coding", "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"],
      ["a bad chunk size", "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"],
    ];
    it.each(ambiguous)("are refused with %s, and their connection is closed", async (_, rest) => {
      let handled = 0;
      await using server = await startServer(adapter, {
        onRequest: (exchange) => {
          handled += 1;
          exchange.respond(ok());
        },
      });
      const request = `POST / HTTP/1.1\r\nHost: h\r\n${rest}`;
      using honest = await RawClient.connect(server.port);
      await honest.send(request).untilClosed();
      expect(honest.text).toMatch(/^HTTP\/1\.1 (400|501) /);
      // With more behind it, being cut off without an answer is as good.
      using smuggler = await RawClient.connect(server.port);
      smuggler.send(`${request}GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n`);
      await smuggler.untilClosed();
      expect(smuggler.text).toMatch(/^(HTTP\/1\.1 (400|501) |$)/);
      expect(handled).toBe(0);
    });

    // The end of the first would be the path that is routed; no URL can be made with the last.
    const hosts = ["a/agents/b?", "a?", "a#", "a\\b", "u:p@a", "a b", "[::1", "a\r\nHost: b"];
    it.each([...hosts, "999.1.1.1", "1.2.3.4.5", "a%zz", "a^b", "a:70000"])(
      "and upgrades are refused when the host is %j",
      async (host) => {
        await using server = await startServer(adapter);
        for (const rest of ["", UPGRADE]) {
          using client = await RawClient.connect(server.port);
          client.send(`GET / HTTP/1.1\r\nHost: ${host}\r\n${rest}\r\n`);
          expect((await client.response()).statusLine).toBe("HTTP/1.1 400 Bad Request");
        }
      },
    );

    it.each(["", "a", "a:1", "a.", "[::1]:1", "ä", "1.2.3.4", "a_b"])(
      "may have the host %j",
      async (host) => {
        await using server = await startServer(adapter);
        using client = await RawClient.connect(server.port);
        client.send(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
        expect((await client.response()).statusLine).toBe("HTTP/1.1 200 OK");
      },
    );

    it("are refused without a method", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      client.send(" / HTTP/1.1\r\nHost: a\r\n\r\n");
      expect((await client.response()).statusLine).toMatch(/^HTTP\/1.1 400 /);
    });

    it("are refused without a host", async () => {
      await using server = await startServer(adapter);
      using client = await RawClient.connect(server.port);
      client.send("GET / HTTP/1.1\r\nX: y\r\n\r\n");
      expect((await client.response()).statusLine).toBe("HTTP/1.1 400 Bad Request");
    });
  });
};
