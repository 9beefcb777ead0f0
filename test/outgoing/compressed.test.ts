/** Compressed answers that code passes on: the client receives what its headers say. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Agent } from "agents";
import { decodedAnswer } from "../../services/node/decodedAnswer.ts";
import { installGatedFetch } from "../../services/node/gatedFetch.ts";
import { adapters } from "../http/kit.ts";
import { useSystems } from "../system/kit.ts";

const TEXT = JSON.stringify({ words: "word ".repeat(2_000) });
const BODIES: Readonly<Record<string, Uint8Array>> = {
  gzip: gzipSync(TEXT),
  br: brotliCompressSync(TEXT),
  identity: Buffer.from(TEXT),
};

const ZSTD_TEXT = "whole";
/** Of `ZSTD_TEXT`: older releases of Node can't write it. */
const ZSTD = Buffer.from("28b52ffd200529000077686f6c65", "hex");

/** Answers with the body that the path names. */
let upstream: Server;
let upstreamUrl: string;
const plain = globalThis.fetch;
beforeAll(async () => {
  upstream = createServer((request, response) => {
    const coding = request.url!.slice(1);
    if (coding === "moved") return response.writeHead(302, { location: "/gzip" }).end();
    const body = coding === "zstd" ? ZSTD : BODIES[coding]!;
    response.writeHead(200, {
      "content-type": "application/json",
      "content-length": body.length,
      "x-own": "kept",
      ...(coding !== "identity" && { "content-encoding": coding }),
    });
    response.end(body);
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => upstream.once("listening", resolve));
  upstreamUrl = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  installGatedFetch();
});
afterAll(() => {
  globalThis.fetch = plain;
  upstream.close();
});

const passOn: Readonly<Record<string, (url: string, agent: Agent) => Promise<Response>>> = {
  "as it is": (url) => fetch(url),
  "in another response": async (url) => {
    const answer = await fetch(url);
    return new Response(answer.body, answer);
  },
  "as text": async (url) => {
    const { headers, status, ...rest } = await fetch(url).then(async (answer) => ({
      headers: answer.headers,
      status: answer.status,
      text: await answer.text(),
    }));
    return new Response(rest.text, { headers, status });
  },
  "as a step's result": (url, agent) => agent.fetch(url),
};

class Proxy extends Agent {
  override async onRequest(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    return passOn[searchParams.get("how")!]!(searchParams.get("url")!, this);
  }
}

describe.each(adapters)("a compressed answer, on $name", ({ name: http }) => {
  const systems = useSystems();
  let url: string;
  beforeAll(async () => {
    const module = { agents: { Proxy } };
    url = (await systems.start(module, { http })).url;
  });

  it.each(Object.keys(passOn).flatMap((how) => Object.keys(BODIES).map((coding) => [how, coding])))(
    "that an agent passes on %s arrives whole: %s",
    async (how, coding) => {
      const query = new URLSearchParams({ how: how!, url: `${upstreamUrl}/${coding}` });
      const answer = await plain(`${url}/agents/proxy/p?${query.toString()}`);
      expect(await answer.text()).toBe(TEXT);
      expect(answer.headers.get("x-own")).toBe("kept");
    },
  );
});

describe("the answer of fetch", () => {
  it("keeps all but the headers of the wire", async () => {
    const answer = await fetch(`${upstreamUrl}/moved`);
    expect([answer.status, answer.ok, answer.redirected]).toEqual([200, true, true]);
    expect(answer.url).toBe(`${upstreamUrl}/gzip`);
    expect(answer.headers.has("content-encoding")).toBe(false);
    expect(answer.headers.has("content-length")).toBe(false);
    expect(await answer.clone().text()).toBe(TEXT);
    expect(await answer.json()).toEqual(JSON.parse(TEXT));
  });

  it("loses the header of zstd exactly where this Node decodes it", async () => {
    const answer = await fetch(`${upstreamUrl}/zstd`, { headers: { "accept-encoding": "zstd" } });
    const isDecoded = (await answer.text()) === ZSTD_TEXT;
    expect(answer.headers.has("content-encoding")).toBe(!isDecoded);
  });

  it("is untouched where nothing was decoded", async () => {
    const head = await fetch(`${upstreamUrl}/gzip`, { method: "HEAD" });
    expect(head.headers.get("content-encoding")).toBe("gzip");
    const whole = await fetch(`${upstreamUrl}/identity`);
    expect(whole.headers.get("content-length")).toBe(String(TEXT.length));
    const other = new Response("x", { headers: { "content-encoding": "gzip, compress" } });
    expect(decodedAnswer(other)).toBe(other);
  });
});
