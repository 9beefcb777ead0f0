/**
 * Bytes at real servers, by both adapters: instead of a request, and instead of an upgrade and its
 * frames. Each connection is answered or closed, what reaches a handler is a request by its
 * contract, and who comes next is served.
 */
import { REDACTION } from "../../../core/redaction/Redaction.ts";
import { connect } from "node:net";
import { AbortSource } from "../../../core/lazyFetch/AbortSource.ts";
import { parseClientFrame } from "../../../core/connection/protocol.ts";
import type { HttpRequest } from "../../../core/http/HttpServer.ts";
import { headerRecord, toRequest, urlOf } from "../../../services/gateway/requests.ts";
import { adapters, ok, startServer, type Adapter } from "../../http/kit.ts";
import { exchange } from "../exchange.ts";
import { frame, UPGRADE_HEADERS } from "../webSocket.ts";
import { Broken, type FuzzTarget, type OpenTarget } from "../Target.ts";

const UPGRADE = `GET /agents/a/b?_pk=1 HTTP/1.1\r\n${UPGRADE_HEADERS}`;
const GOOD = "POST /good HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
const BODY_MAX = 1024;

const WORDS = [
  "GET ", "POST ", "OPTIONS * ", "HTTP/1.1", "HTTP/1.0", "\r\n", "\r\n\r\n", ": ", "Host", "Content-Length: ", "-1", "99999999999999999999",
  "Transfer-Encoding: chunked\r\n", "0\r\n\r\n", "5;a=b\r\n", "Upgrade: websocket\r\n", "Connection: ", "Sec-WebSocket-Protocol: ",
  "Sec-WebSocket-Extensions: permessage-deflate\r\n", "Expect: 100-continue\r\n", "\0", "é", "%00", "%2F..", "?_pk=", "http://x/", " ", "\t", "\n", "\r",
]; // prettier-ignore

function check(request: HttpRequest): void {
  const { method, target, headers } = request;
  if (!target.startsWith("/") || /[^\x21-\x7e]/.test(target))
    throw new Broken(`a target is ${JSON.stringify(target)}`);
  if (method === "" || Reflect.has(headers, "toString"))
    throw new Broken(`a request by ${JSON.stringify(method)}, or headers with a prototype`);
  for (const name of Object.keys(headers))
    if (name !== name.toLowerCase() || headers[name]!.some((value) => /[\r\n\0]/.test(value)))
      throw new Broken(`a header is ${JSON.stringify([name, headers[name]])}`);
  headerRecord(request, REDACTION);
  try {
    toRequest(request, urlOf(request, undefined), Buffer.alloc(0), new AbortSource()).headers.get(
      "host",
    );
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // declared: the gateway answers 400
  }
}

async function open(adapter: Adapter): Promise<OpenTarget> {
  let broken: unknown;
  const guarded = (step: () => void): void => {
    try {
      step();
    } catch (error) {
      broken ??= error;
    }
  };
  const server = await startServer(
    adapter,
    {
      limitBody: (request) => {
        guarded(() => check(request));
        return BODY_MAX;
      },
      onRequest: (exchanged) => {
        guarded(() => {
          check(exchanged.request);
          if (exchanged.body.length > BODY_MAX) throw new Broken("a body past its limit");
        });
        exchanged.respond(ok("good"));
      },
      onUpgrade: async (request) => {
        guarded(() => check(request));
        return {
          _tag: "Accept",
          open: (socket) => ({
            onMessage: (data) => {
              if (data.length > 2 * BODY_MAX) broken ??= new Broken("a message past its limit");
              if (typeof data === "string") parseClientFrame(data);
              socket.send(data);
            },
            onClose: () => undefined,
          }),
        };
      },
    },
    { headerTimeoutMs: 2_000, bodyTimeoutMs: 2_000, messageBytesMax: BODY_MAX },
  );
  const dial = () => connect(server.port, "127.0.0.1");
  return {
    run: async (input) => {
      await exchange(dial(), input);
      if (broken !== undefined) throw broken;
      const next = await exchange(dial(), Buffer.from(GOOD));
      if (!next.startsWith("HTTP/1.1 200") || !next.endsWith("good"))
        throw new Broken(`the next request is not served: ${next.slice(0, 300)}`);
    },
    close: server.stop,
  };
}

export const httpTargets: ReadonlyArray<FuzzTarget> = adapters.flatMap((adapter) => [
  {
    name: `http-${adapter.name}`,
    seeds: [
      GOOD,
      "GET /a%20b?c=d HTTP/1.1\r\nHost: x:1\r\nX-A: 1\r\nx-a: 2\r\nCookie: a=b\r\n\r\n",
      "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nT: 1\r\n\r\n",
      `POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabcGET /next HTTP/1.0\r\n\r\n`,
      `${UPGRADE}\r\n`,
    ].map((text) => Buffer.from(text)),
    words: WORDS,
    open: () => open(adapter),
  },
  {
    name: `sockets-${adapter.name}`,
    seeds: [
      [frame(0x81, '{"type":"rpc","id":"1","method":"m","args":[1]}'), frame(0x88, "\u0003\u00e8bye")],
      [frame(0x01, "a"), frame(0x89, "ping"), frame(0x80, "b"), frame(0x82, "\u0000\u0001"), frame(0x88, "")],
      [frame(0x81, "x".repeat(300)), frame(0x8a, "pong")],
    ].map((frames) => Buffer.concat([Buffer.from(`${UPGRADE}Sec-WebSocket-Protocol: a\r\n\r\n`), ...frames])),
    words: [...WORDS, "\x81\x85\0\0\0\0", "\x88\x82\0\0\0\0", "\x89\x80\0\0\0\0", "\xc1", "\x81\xff"],
    open: () => open(adapter),
  },
]); // prettier-ignore
