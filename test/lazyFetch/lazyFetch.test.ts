/** Lazy requests and responses can't be distinguished from those of the platform's classes. */
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import fc from "../kit/property.ts";
import { describe, expect, test } from "vitest";
import { abortOfSignal, type Abort } from "../../core/lazyFetch/AbortSource.ts";
import { LazyRequest } from "../../core/lazyFetch/LazyRequest.ts";
import { LazyResponse } from "../../core/lazyFetch/LazyResponse.ts";
import { wholeResponse } from "../../core/http/takeResponse.ts";
import { toHttpResponse } from "../../services/gateway/requests.ts";
import { installLazyFetch } from "../../core/lazyFetch/installLazyFetch.ts";

const NativeRequest = globalThis.Request;
const NativeResponse = globalThis.Response;
installLazyFetch();

const bytes = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);

/** What it gives, or how it fails. */
async function outcome(f: () => unknown): Promise<unknown> {
  try {
    const value = await f();
    if (value instanceof ArrayBuffer) return [...new Uint8Array(value)];
    if (value instanceof Headers) return [...value];
    if (value instanceof FormData) return [...value];
    if (value instanceof Blob) return [value.type, await value.text()];
    if (value instanceof NativeRequest || value instanceof NativeResponse)
      return [value.constructor.name, await value.text()];
    if (value instanceof ReadableStream) return value.locked;
    if (value instanceof AbortSignal) return value.aborted;
    return value;
  } catch (error) {
    // Node's own SyntaxErrors name no file; the message is what an agent's log shows.
    return { name: (error as Error).name, message: (error as Error).message };
  }
}

type Target = Request | Response;
/** The headers of a target as code may hold them while it does something else. */
const held = new WeakMap<Target, Headers>();
const LOOKS: Readonly<Record<string, (target: Target) => unknown>> = {
  text: (t) => t.text(),
  json: (t) => t.json(),
  arrayBuffer: (t) => t.arrayBuffer(),
  blob: (t) => t.blob(),
  formData: (t) => t.formData(),
  clone: (t) => t.clone(),
  bodyUsed: (t) => t.bodyUsed,
  body: (t) => t.body,
  headers: (t) => t.headers,
  type: (t) => t.headers.get("content-type"),
  change: (t) => t.headers.set("x-more", "1"),
  hold: (t) => void held.set(t, t.headers),
  changeHeld: (t) => held.get(t)?.append("set-cookie", "a=b"),
  isHeld: (t) => held.get(t) === t.headers,
  cloned: (t) => t.clone().headers,
  url: (t) => t.url,
  method: (t) => ("method" in t ? t.method : undefined),
  signal: (t) => ("signal" in t ? t.signal : undefined),
  rest: (t) =>
    "method" in t
      ? [t.cache, t.credentials, t.mode, t.redirect, t.referrer, t.keepalive, t.integrity]
      : [t.status, t.ok, t.statusText, t.type, t.redirected],
  class: (t) => [
    t instanceof Request,
    t instanceof Response,
    t instanceof NativeRequest,
    t instanceof NativeResponse,
    Object.prototype.toString.call(t),
    t.constructor === Request || t.constructor === Response,
  ],
  shown: (t) => inspect(t).split(" ")[0],
  again: (t) => ("method" in t ? new Request(t) : new Response(t.body, t)),
  changed: (t) => ("method" in t ? new Request(t, { method: "PUT" }).method : undefined),
};
const looks = fc.array(fc.constantFrom(...Object.keys(LOOKS)), { maxLength: 6 });

async function compare(lazy: Target, native: Target, names: ReadonlyArray<string>): Promise<void> {
  for (const name of names) {
    const seen = await outcome(() => LOOKS[name]!(lazy));
    expect(seen, `${name} of ${names.join(", ")}`).toEqual(
      await outcome(() => LOOKS[name]!(native)),
    );
  }
}

const bodies = fc.constantFrom(
  "",
  "{}",
  '{"a":[1,"é"]}',
  "not json",
  "\uFEFFbom",
  "a=1&b=2",
  "lone \uD800 surrogate",
);
const headerSets = fc.constantFrom<Record<string, string>>(
  {},
  { "content-type": "application/json", "X-Event": "push" },
  { "Content-Type": "application/x-www-form-urlencoded" },
  { "x-empty": "", cookie: "a=b", host: "x" },
  { "x-latin": "été", "x-blank": "  two  ", "x-tab": "a\tb", "X-Twice": "1", "x-twice": "2" },
  { "bad name": "x" },
  { "": "x" },
  { "x-lines": "a\r\nb" },
  { "x-nul": "a\0b" },
  { "x-wide": "日本" },
);

describe("a lazy request", () => {
  test("looks like the platform's, in whatever order its properties are read", async () => {
    const methods = fc.constantFrom("GET", "POST", "PUT", "DELETE", "OPTIONS");
    const urls = fc.constantFrom(
      "http://localhost:8787/webhooks/github?x=1",
      "https://EXAMPLE.com",
      "http://[::1]:80/a%20b/../c",
      "http://user:word@host/",
      "http://256.1.1.1/",
      "http://localhost:99999/?x",
    );
    await fc.assert(
      fc.asyncProperty(
        methods,
        urls,
        headerSets,
        bodies,
        looks,
        async (method, url, headers, text, names) => {
          const body = method === "GET" || text === "" ? null : bytes(text);
          const make = (f: () => Request) =>
            outcome(() => ({ made: f() })) as Promise<{ made?: Request }>;
          const lazy = await make(() => LazyRequest.make(url, { method, headers, body }));
          const init = { method, headers, body, redirect: "manual" } as const;
          const native = await make(() => new NativeRequest(url, init));
          if (lazy.made === undefined || native.made === undefined) expect(lazy).toEqual(native);
          else await compare(lazy.made, native.made, names);
        },
      ),
      { numRuns: 400 },
    );
  });

  test("gives its own bytes only, where they are part of a pool that other requests share", async () => {
    const body = Buffer.from("héllo"); // Node's pool: 8 KiB, with the bytes of others
    expect(body.buffer.byteLength).toBeGreaterThan(body.length);
    const request = LazyRequest.make("http://x/", { method: "POST", headers: {}, body });
    const read = await request.arrayBuffer();
    expect(Buffer.from(read)).toEqual(body);
    new Uint8Array(read).fill(0);
    expect(body.toString()).toBe("héllo");
  });

  test("has a signal, as does the platform's request behind it, in any order of reads", () => {
    for (const looksFirst of [true, false])
      for (const method of ["GET", "PURGE"]) {
        const caller = new AbortController();
        let asked = 0;
        const abort: Abort = {
          ...abortOfSignal(caller.signal),
          get signal() {
            asked++;
            return caller.signal;
          },
        };
        const lazy = LazyRequest.make("http://x/", { method, headers: {}, body: null, abort });
        if (method === "GET") expect([lazy.url, asked]).toEqual(["http://x/", 0]);
        if (looksFirst) expect(lazy.signal.aborted).toBe(false);
        const derived = new Request(lazy);
        caller.abort();
        expect(lazy.signal.reason).toBe(caller.signal.reason);
        expect(derived.signal.reason).toBe(caller.signal.reason);
        expect(lazy.clone().signal.aborted).toBe(true);
      }
  });

  test("that is invalid is refused as by the platform", () => {
    const init = { method: "POST", headers: {}, body: null };
    expect(() => LazyRequest.make("nowhere", init)).toThrow(TypeError);
    expect(() => LazyRequest.make("http://x/", { ...init, method: "TRACE" })).toThrow(TypeError);
    expect(() => LazyRequest.make("http://x/", { ...init, headers: { "a b": "" } })).toThrow(
      TypeError,
    );
  });

  test("can be passed to fetch", async () => {
    const server = createServer((request, response) => {
      request.pipe(response.writeHead(200, { "x-method": request.method ?? "" }));
    }).listen(0);
    await once(server, "listening");
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
      const request = LazyRequest.make(url, { method: "POST", headers: {}, body: bytes("echo") });
      const response = await fetch(request);
      expect([response.headers.get("x-method"), await response.text()]).toEqual(["POST", "echo"]);
    } finally {
      server.close();
    }
  });
});

describe("headers taken before the rest of their object", () => {
  const uses: Readonly<Record<string, (target: Target) => unknown>> = {
    body: (t) => t.body,
    clone: (t) => t.clone(),
    blob: (t) => t.blob(),
  };
  const rows = Object.keys(uses);

  test.each(rows)("stay those of a response: %s", (use) => {
    const response = new Response("x", { headers: { "x-old": "1" } });
    const { headers } = response;
    uses[use]!(response);
    headers.set("x-new", "2");
    headers.delete("x-old");
    expect(response.headers).toBe(headers);
    if (use !== "blob") expect([...response.clone().headers]).toEqual([...headers]);
    expect(headers.has("x-new")).toBe(true);
  });

  test.each(rows)("stay those of a request: %s", async (use) => {
    const init = { method: "POST", headers: { "x-old": "1" }, body: bytes("x") };
    const request = LazyRequest.make("http://x/", init);
    const { headers } = request;
    await uses[use]!(request);
    headers.set("x-new", "2");
    headers.delete("x-old");
    expect(request.headers).toBe(headers);
    if (use !== "blob") expect([...new Request(request).headers]).toEqual([...headers]);
    expect([...headers]).toEqual([["x-new", "2"]]);
  });

  test("are sent with a response whose body was looked at", async () => {
    const response = new Response("x");
    const { headers } = response;
    expect(response.body?.locked).toBe(false);
    headers.set("x-frame-options", "DENY");
    const { headers: sent } = await wholeResponse(response, "fetch");
    expect(sent).toContainEqual(["x-frame-options", "DENY"]);
  });
});

describe("the bytes of a lazy request", () => {
  const init = { method: "POST", headers: {}, body: bytes("body") };

  test("are taken once, which marks the request as used", async () => {
    const request = LazyRequest.make("http://x/", init);
    expect(LazyRequest.take(request)).toBe(init.body);
    expect(request.bodyUsed).toBe(true);
    expect(LazyRequest.take(request)).toBeUndefined();
    await expect(request.text()).rejects.toThrow(TypeError);
    expect(() => new Request(request)).toThrow(TypeError);
  });

  test("are not available without a body, or after another reader", async () => {
    const bare = LazyRequest.make("http://x/", { ...init, body: null });
    expect([LazyRequest.take(bare), LazyRequest.take(bare), bare.bodyUsed]).toEqual([
      null,
      null,
      false,
    ]);
    const read = LazyRequest.make("http://x/", init);
    await read.text();
    const asked = LazyRequest.make("http://x/", init);
    expect(asked.body).not.toBeNull();
    for (const other of [read, asked, new NativeRequest("http://x/"), "http://x/", undefined])
      expect(LazyRequest.take(other)).toBeUndefined();
  });
});

describe("a lazy response", () => {
  const inits = fc.constantFrom<ResponseInit | undefined>(
    undefined,
    {},
    { status: 201 },
    { status: 404, headers: { "x-a": "1" } },
    { status: 204 },
    { status: 99 },
    { status: 200, statusText: "Fine" },
    { headers: { "content-type": "text/html" } },
    {
      headers: [
        ["set-cookie", "a"],
        ["set-cookie", "b"],
      ],
    },
    { headers: { "bad name": "x" } },
  );

  test("looks like the platform's, in whatever order its properties are read", async () => {
    const texts = fc.oneof(bodies, fc.constant(null), fc.constant(undefined));
    await fc.assert(
      fc.asyncProperty(texts, inits, fc.boolean(), looks, async (body, init, json, names) => {
        const make = (Class: typeof Response) =>
          outcome(() => ({
            made: json ? Class.json(body, init) : new Class(body, init),
          })) as Promise<{
            made?: Response;
          }>;
        const lazy = await make(Response);
        const native = await make(NativeResponse);
        if (lazy.made === undefined || native.made === undefined) expect(lazy).toEqual(native);
        else await compare(lazy.made, native.made, names);
      }),
      { numRuns: 400 },
    );
  });

  test("is sent as the platform's would be", async () => {
    await fc.assert(
      fc.asyncProperty(bodies, inits, async (body, init) => {
        const wire = async (Class: typeof Response) => {
          const parts = await wholeResponse(new Class(body, init), "it");
          const text = typeof parts.body === "string" ? bytes(parts.body) : parts.body;
          return { ...parts, body: [...text] };
        };
        expect(await outcome(() => wire(Response))).toEqual(
          await outcome(() => wire(NativeResponse)),
        );
      }),
    );
  });

  const answers = fc.record({
    text: bodies,
    status: fc.constantFrom(200, 201, 204, 304, 404, 500),
    headers: fc.constantFrom<[string, string][]>(
      [],
      [["content-type", "application/json"]],
      [["set-cookie", "a=1"], ["set-cookie", "b=2"], ["x-a", "é"]],
    ),
  }); // prettier-ignore
  /** Another agent's answer: ours, and as the platform would hold it. */
  const both = (answer: {
    readonly text: string;
    readonly status: number;
    readonly headers: [string, string][];
  }): readonly [Response, Response] => {
    const { text, status, headers } = answer;
    const content = [204, 304].includes(status) ? null : bytes(text);
    const lazy = LazyResponse.of(bytes(text), status, headers);
    return [lazy!, new NativeResponse(content, { status, headers })];
  };

  test("made from another's bytes looks like the platform's, in whatever order its properties are read", async () => {
    await fc.assert(
      fc.asyncProperty(answers, looks, (answer, names) => compare(...both(answer), names)),
      { numRuns: 400 },
    );
    for (const status of [101, 199, 600])
      expect(LazyResponse.of(bytes(""), status, [])).toBeUndefined();
  });

  test("made from another's bytes is sent by the gateway as the platform's would be, also after a change", async () => {
    await fc.assert(
      fc.asyncProperty(answers, fc.boolean(), async (answer, isChanged) => {
        const wire = async (response: Response) => {
          if (isChanged) response.headers.set("x-more", "1");
          const { status, headers, body } = await toHttpResponse(response);
          return { status, headers, body: [...(typeof body === "string" ? bytes(body) : body)] };
        };
        const [lazy, native] = both(answer);
        expect(await wire(lazy)).toEqual(await wire(native));
      }),
    );
  });

  test("that a module made once is sent by the gateway each time", async () => {
    const notFound = new Response("Nothing here", { status: 404 });
    for (let time = 0; time < 2; time++)
      expect(await toHttpResponse(notFound)).toMatchObject({ status: 404, body: "Nothing here" });
  });

  test("is the platform's own when it is derived, or made of bytes and streams", async () => {
    class Mine extends Response {}
    const mine = new Mine("x", { status: 202 });
    expect([mine instanceof Mine, mine.status, await mine.text()]).toEqual([true, 202, "x"]);
    for (const made of [new Response(bytes("é")), new Response(new Blob(["é"]).stream())]) {
      expect(LazyResponse.parts(made)).toBeUndefined();
      expect(new TextDecoder().decode((await wholeResponse(made, "it")).body as Uint8Array)).toBe(
        "é",
      );
    }
    expect(Response.redirect("http://x/").status).toBe(302);
    expect(Response.error().type).toBe("error");
  });
});

describe("what code can see of a lazy object", () => {
  const lazy = new Response("x");
  const made = LazyRequest.make("http://localhost/", { method: "GET", headers: [], body: null });

  test("is a prototype that derives from the platform's, and no own fields", () => {
    for (const [object, Class] of [
      [lazy, Response],
      [made, Request],
    ] as const) {
      const prototype = Object.getPrototypeOf(object) as object;
      expect(prototype === Class.prototype).toBe(false);
      expect(Object.getPrototypeOf(prototype) === Class.prototype).toBe(true);
      expect(Reflect.ownKeys(object)).toEqual([]);
    }
  });

  test("is that a method of the platform's prototype does not work on it", () => {
    for (const [object, Class] of [[lazy, NativeResponse], [made, NativeRequest]] as const)
      expect(() => Reflect.get(Class.prototype, "status" in object ? "status" : "url", object)).toThrow(TypeError); // prettier-ignore
    expect(() => Headers.prototype.get.call(made.headers, "x")).toThrow(TypeError);
  });

  test("is that a method replaced on the platform's prototype is not called", async () => {
    const { text } = NativeResponse.prototype;
    NativeResponse.prototype.text = () => Promise.resolve("replaced");
    try {
      expect(await new NativeResponse("x").text()).toBe("replaced");
      expect(await new Response("x").text()).toBe("x");
    } finally {
      NativeResponse.prototype.text = text;
    }
  });

  test("is that a saved platform constructor does not accept it", () => {
    expect(() => new NativeRequest(made)).toThrow(TypeError);
    expect(new Request(made).url).toBe(made.url);
  });
});

test("a body that is a stream needs no duplex, in a request and in fetch", async () => {
  const server = createServer((request, response) => request.pipe(response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const body = () => new NativeResponse("streamed").body;
  const request = new Request(url, { method: "POST", body: body() });
  const passedOn = new Request(request, { headers: { "x-by": "us" } });
  const answers = [
    await fetch(url, { method: "POST", body: body() }),
    await fetch(passedOn),
    await fetch(url, new Request(url, { method: "POST", body: body() })),
  ];
  expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(
    Array<string>(3).fill("streamed"),
  );
  server.close();
});
