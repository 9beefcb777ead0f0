/** Requests that agents and modules pass on with `fetch`: method, headers and body arrive. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Agent } from "agents";
import { constant, unsigned, webhook } from "agents/webhooks";
import { ask } from "../attack/ask.ts";
import { installGatedFetch } from "../../services/node/gatedFetch.ts";
import { adapters } from "../http/kit.ts";
import { useSystems } from "../system/kit.ts";

interface Arrived {
  readonly method: string;
  readonly own: string | undefined;
  readonly body: string;
}

/** Answers with what arrived. */
let upstream: Server;
let upstreamUrl: string;
const plain = globalThis.fetch;
beforeAll(async () => {
  upstream = createServer((request, response) => {
    void text(request).then((body) => {
      const { method, headers } = request;
      response.end(JSON.stringify({ method, own: headers["x-own"], body }));
    });
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => upstream.once("listening", resolve));
  upstreamUrl = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/`;
  installGatedFetch();
});
afterAll(() => {
  globalThis.fetch = plain;
  upstream.close();
});

const ways: Readonly<Record<string, (request: Request, agent?: Agent) => Promise<Response>>> = {
  "as options": (request) => fetch(upstreamUrl, request),
  "as another request": (request) => fetch(new Request(upstreamUrl, request)),
  "by its parts": ({ method, headers, body }) =>
    fetch(upstreamUrl, { method, headers, body, duplex: "half" } as RequestInit),
  "as options of a step": (request, agent) => agent!.fetch(upstreamUrl, request),
};

class Forwarder extends Agent {
  override async onRequest(request: Request): Promise<Response> {
    return whole(await ways[request.headers.get("x-way") ?? "as options"]!(request, this));
  }
}

/** With a length, so that the client does not wait for the end of its connection. */
const whole = async (answer: Response): Promise<Response> => new Response(await answer.text());

const CHUNKED = "4\r\nbody\r\n0\r\n\r\n";
const requests: ReadonlyArray<readonly [string, Readonly<Record<string, string>>, string]> = [
  ["with a length", {}, "body"],
  ["in chunks", { "transfer-encoding": "chunked" }, CHUNKED],
  ["with options of its connection", { connection: "close, x-hop", te: "trailers", "keep-alive": "5" }, "body"],
  ["that expects 100", { expect: "100-continue" }, "body"],
  ["that offers another protocol", { connection: "Upgrade", upgrade: "h2c" }, "body"],
]; // prettier-ignore

describe.each(adapters)("a request that is passed on, on $name", ({ name: http }) => {
  const systems = useSystems();
  let url: string;
  let moduleUrl: string;
  beforeAll(async () => {
    const hook = { agent: Forwarder, verify: unsigned(), entity: constant("a") };
    const module = { agents: { Forwarder }, webhooks: [webhook("/webhooks/any", hook)] };
    ({ url } = await systems.start(module, { http }));
    const fetchAll = async (request: Request) => whole(await ways["as options"]!(request));
    ({ url: moduleUrl } = await systems.start({ ...module, fetch: fetchAll }, { http }));
  });
  const arrived = async (
    to: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body: string,
  ): Promise<Arrived> => {
    const sent = headers["transfer-encoding"] === undefined ? { body } : { framed: body };
    const all = { host: "localhost", "x-own": "kept", ...headers };
    const answer = await ask(to, all, { method: "POST", path, ...sent });
    return JSON.parse(/\{.*\}/s.exec(answer.text)![0]) as Arrived;
  };
  const sentWhole = { method: "POST", own: "kept", body: "body" };

  describe.each(requests)("%s", (_, headers, body) => {
    it.each(Object.keys(ways))("arrives whole: by an agent, %s", async (way) => {
      const sent = { ...headers, "x-way": way };
      expect(await arrived(url, "/agents/forwarder/a", sent, body)).toEqual(sentWhole);
    });

    it("arrives whole: by a module, and as a webhook by its agent", async () => {
      expect(await arrived(moduleUrl, "/any", headers, body)).toEqual(sentWhole);
      expect(await arrived(url, "/webhooks/any", headers, body)).toEqual(sentWhole);
    });
  });
});
