/**
 * Bytes that no client of ours sends, at a gateway and a host that live: bodies of signed webhooks, whatever comes instead of a
 * request, frames of a socket. Each is answered or its connection closed, and who comes next is served. `kit/fuzz.ts` says how to
 * run it for longer.
 */
import { createHmac, randomBytes } from "node:crypto";
import { connect } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Agent, callable, type Connection } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { fuzz, fuzzTimeoutMs } from "../kit/fuzz.ts";
import { pollUntil } from "../kit/poll.ts";
import { useSystems } from "./kit.ts";

/** Some dozens of requests. */
const SUITE_MS = 400;
const TIMEOUT_MS = fuzzTimeoutMs(SUITE_MS);
const SECRET = "secret";
/** An answer of a busy machine; a peer that gives none is a fault. */
const ANSWER_TIMEOUT_MS = 20_000;

class AnythingAgent extends Agent<unknown, { readonly n: number }> {
  static override options = { http: "open", hibernateAfterSeconds: 1 };
  override initialState = { n: 0 };
  @callable()
  echo(...args: ReadonlyArray<unknown>): unknown {
    return args;
  }
  override onMessage(connection: Connection, message: string | ArrayBuffer): void {
    connection.send(typeof message === "string" ? `got ${message.length}` : "got bytes");
  }
  override onError(): void {
    // What clients send wrong is answered; the agent goes on.
  }
  override async onRequest(request: Request): Promise<Response> {
    await request.text();
    return new Response("OK");
  }
}

const systems = useSystems();
const make = () =>
  systems.start({
    agents: { AnythingAgent },
    env: { SECRET },
    webhooks: [
      webhook("/webhooks/:kind", {
        agent: "AnythingAgent",
        verify: github({ secret: "SECRET" }),
        entity: body("agent"),
      }),
    ],
  });

const served = async (url: string): Promise<void> => {
  const response = await fetch(`${url}/agents/anything-agent/one`, { method: "POST", body: "x" });
  expect([response.status, await response.text()]).toEqual([200, "OK"]);
};

const word = fc.constantFrom(
  "agent",
  "one",
  "a",
  "payload",
  "",
  "..",
  "é",
  "x".repeat(1100),
  "*",
  ">",
  "\u0000",
  "=2E",
);
const json = fc.oneof(
  fc.json({ maxDepth: 3 }),
  fc
    .tuple(word, fc.oneof(word, fc.jsonValue({ maxDepth: 2 })))
    .map(([key, value]) => JSON.stringify({ [key]: value })),
  fc.jsonValue({ maxDepth: 2 }).map((agent) => JSON.stringify({ agent })),
  word.map((agent) => `{"agent":${JSON.stringify(agent)},"agent":1}`),
);

test(
  "a signed webhook of any body is taken or refused, never lost or an error of ours",
  async () => {
    const { url } = await make();
    const bytes = fc.oneof(
      json.map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 300 }),
    );
    const type = fc.constantFrom(
      "application/json",
      "application/x-www-form-urlencoded",
      "text/plain",
      "a; charset=utf-16",
    );
    const property = fc.asyncProperty(bytes, type, async (made, contentType) => {
      const signature = createHmac("sha256", SECRET).update(made).digest("hex");
      const response = await fetch(`${url}/webhooks/any`, {
        method: "POST",
        body: made as Uint8Array<ArrayBuffer>,
        headers: {
          "content-type": contentType,
          "x-hub-signature-256": `sha256=${signature}`,
          "x-github-delivery": randomBytes(8).toString("hex"),
        },
        signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
      });
      await response.text();
      expect(response.status < 500 && response.status !== 401, `status ${response.status}`).toBe(
        true,
      );
    });
    await fuzz("bodies of signed webhooks", SUITE_MS, property);
    await served(url);
  },
  TIMEOUT_MS,
);

/**
 * Sends the bytes, the frames once there is an answer to them, and, unless an answer is waited for, an end. Resolves with what came
 * by that answer or the close.
 */
function raw(
  url: string,
  bytes: Uint8Array,
  frames?: ReadonlyArray<Uint8Array>,
  isAnswered?: (all: Buffer) => boolean,
): Promise<Buffer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    const got: Buffer[] = [];
    const timer = setTimeout(() => {
      socket.destroy();
      const heard = Buffer.concat(got).toString("latin1").slice(0, SHOWN_MAX);
      reject(new Error(`neither an answer nor a close: ${heard}`));
    }, ANSWER_TIMEOUT_MS);
    const done = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(Buffer.concat(got));
    };
    let framesLeft = frames;
    socket.on("data", (piece) => {
      got.push(piece);
      if (framesLeft !== undefined) {
        for (const frame of framesLeft) socket.write(frame);
        framesLeft = undefined;
        if (isAnswered === undefined) socket.end();
      }
      if (isAnswered?.(Buffer.concat(got))) done();
    });
    socket.on("close", done);
    socket.on("error", done); // a peer that has closed already
    socket.write(bytes);
    if (frames === undefined) socket.end();
  });
}

/** Of what was heard, in an error. */
const SHOWN_MAX = 300;

const token = fc.constantFrom(
  "GET",
  "POST",
  "/",
  "/agents/anything-agent/one",
  "HTTP/1.1",
  "\r\n",
  "\r\n\r\n",
  ": ",
  "Host",
  "x",
  "Content-Length",
  "-1",
  "99999999999999999999",
  "Transfer-Encoding",
  "chunked",
  "Upgrade",
  "websocket",
  "\0",
  "é",
  "%00",
  "..",
  "?_pk=",
  " ",
);

test(
  "whatever comes instead of a request, the next one is served",
  async () => {
    const { url } = await make();
    const bytes = fc.oneof(
      fc.array(token, { maxLength: 30 }).map((parts) => Buffer.from(parts.join(""))),
      fc.uint8Array({ maxLength: 300 }),
      fc
        .array(token, { maxLength: 12 })
        .map((parts) =>
          Buffer.from(
            `GET /agents/anything-agent/one?${parts.join("")} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
          ),
        ),
    );
    const property = fc.asyncProperty(bytes, async (made) => {
      await raw(url, made);
      await served(url);
    });
    await fuzz("whatever comes instead of a request", SUITE_MS, property);
  },
  TIMEOUT_MS,
);

/** A frame of RFC 6455 with any bits: as clients send it, or not. */
function frameOf(parts: {
  readonly first: number;
  readonly masked: boolean;
  readonly length: number | undefined;
  readonly payload: Uint8Array;
}): Buffer {
  const { first, masked, length, payload } = parts;
  const mask = Buffer.from([1, 2, 3, 4]);
  const said = length ?? payload.length;
  const head =
    said < 126 ? Buffer.from([first, said]) : Buffer.from([first, 126, said >> 8, said & 0xff]);
  head[1]! |= masked ? 0x80 : 0;
  const bytes = masked ? payload.map((byte, n) => byte ^ mask[n % 4]!) : payload;
  return Buffer.concat([head, masked ? mask : Buffer.alloc(0), bytes]);
}

test(
  "whatever a client sends on its socket, it is answered or closed, and the agent goes on",
  async () => {
    const { url } = await make();
    const upgrade = Buffer.from(
      "GET /agents/anything-agent/one HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
        `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString("base64")}\r\n\r\n`,
    );
    const text = fc
      .oneof(
        json,
        fc
          .record(
            {
              type: fc.constantFrom("rpc", "cf_agent_state", "cf_agent_identity", 1),
              id: fc.oneof(word, fc.integer()),
              method: fc.constantFrom(
                "echo",
                "onMessage",
                "__proto__",
                "constructor",
                "setState",
                1,
              ),
              args: fc.oneof(fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 3 }), word),
              state: fc.jsonValue({ maxDepth: 2 }),
            },
            { requiredKeys: ["type"] },
          )
          .map((made) => JSON.stringify(made)),
      )
      .map((made) => Buffer.from(made));
    const good = text.map((payload) =>
      frameOf({ first: 0x81, masked: true, length: undefined, payload }),
    );
    const bad = fc
      .record({
        first: fc.integer({ min: 0, max: 255 }),
        masked: fc.boolean(),
        length: fc.option(fc.integer({ min: 0, max: 65_535 }), { nil: undefined, freq: 3 }),
        payload: fc.oneof(fc.uint8Array({ maxLength: 200 }), text),
      })
      .map(frameOf);
    const frames = fc.tuple(fc.array(good, { maxLength: 4 }), fc.array(bad, { maxLength: 3 }));
    const marker = frameOf({
      first: 0x81,
      masked: true,
      length: undefined,
      payload: Buffer.from("x".repeat(77)),
    });
    const property = fc.asyncProperty(frames, async ([before, after]) => {
      // Good ones are answered in order, so the marker's answer comes after theirs.
      const answered = await raw(url, upgrade, [...before, marker], (all) =>
        all.includes("got 77"),
      );
      expect(answered.includes("got 77"), answered.toString("latin1").slice(0, SHOWN_MAX)).toBe(
        true,
      );
      await raw(url, upgrade, after);
    });
    await fuzz("frames of a socket", SUITE_MS, property);
    await served(url);
    await pollUntil("the agent answers a call", async () => {
      const call = Buffer.from(JSON.stringify({ type: "rpc", id: "1", method: "echo", args: [7] }));
      const said = await raw(
        url,
        upgrade,
        [frameOf({ first: 0x81, masked: true, length: undefined, payload: call })],
        (all) => all.includes('"result":[7]'),
      );
      return said.includes('"result":[7]');
    });
  },
  TIMEOUT_MS,
);
