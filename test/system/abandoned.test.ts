/** Callers that leave: the signal of their turn aborts, and what waits for it. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import WebSocket from "ws";
import { Agent, callable, getAgentByName, getCurrentAgent, type StreamingResponse } from "agents";
import { AgentClient } from "agents/client";
import { installGatedFetch } from "../../services/node/gatedFetch.ts";
import { pollUntil } from "../kit/poll.ts";
import { useSystems, type System } from "./kit.ts";

/** What the agents reported: that they began, and the reason that aborted their signal. */
const heard: string[] = [];
/** The server that agents' `fetch` calls. It answers nothing and records clients that leave. */
let slow: Server;
let slowUrl: string;

/** Ends the turns that wait, for tests that show that nothing aborted them. */
let release = (): void => undefined;

async function untilAborted(what: string): Promise<void> {
  const { signal } = getCurrentAgent();
  heard.push(`${what} began`);
  await new Promise<void>((resolve) => {
    release = resolve;
    signal!.addEventListener("abort", () => resolve(), { once: true });
  });
  heard.push(
    `${what} ${signal!.aborted ? `aborted: ${(signal!.reason as Error).name}` : "goes on"}`,
  );
}

class Waiter extends Agent<{ readonly Waiter: never; readonly slowUrl: string }> {
  static override options = { http: "open" };

  override async onRequest(request: Request): Promise<Response> {
    const what = new URL(request.url).searchParams.get("what");
    if (what === "fetch") {
      heard.push("fetch began");
      await fetch(this.env.slowUrl).catch((error: Error) => heard.push(`fetch: ${error.name}`));
    } else if (what === "apart") {
      heard.push("apart began");
      void fetch(this.env.slowUrl, { signal: null }).catch((error: Error) =>
        heard.push(`apart: ${error.name}`),
      );
      await untilAborted("request");
    } else if (what === "stub") {
      heard.push("stub began");
      const other = await getAgentByName<Waiter>(this.env.Waiter, "other");
      await other.wait().catch((error: Error) => heard.push(`stub: ${error.name}`));
    } else if (what === "stream") {
      const stream = new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(new Uint8Array(1024)),
      });
      const { signal } = getCurrentAgent();
      signal!.addEventListener("abort", () => heard.push("stream aborted"));
      return new Response(stream);
    } else {
      request.signal.addEventListener("abort", () => heard.push("request.signal aborted"));
      await untilAborted("request");
    }
    return new Response("OK");
  }

  @callable()
  async wait(): Promise<string> {
    await untilAborted("wait");
    return "waited";
  }
  @callable({ streaming: true })
  async streamed(stream: StreamingResponse): Promise<void> {
    stream.send("first");
    await untilAborted("stream");
    stream.end();
  }
  @callable()
  ping(): string {
    return "pong";
  }
  override onClose(): void {
    heard.push("closed");
  }
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  installGatedFetch();
  slow = createServer((request) => {
    request.on("close", () => heard.push("the slow server was left"));
  });
  await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
  slowUrl = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/`;
  system = await systems.start({ agents: { Waiter }, env: { slowUrl } });
});
afterAll(() => {
  slow?.closeAllConnections();
  slow?.close();
});
beforeEach(() => {
  heard.length = 0;
});

const hears = (what: string) =>
  pollUntil(`"${what}" is heard`, () => ({ done: heard.includes(what), saw: heard, value: true }));

/** Asks, and leaves once the agent's code has begun. */
async function leave(name: string, query: string, begun: string): Promise<void> {
  const gone = new AbortController();
  const answer = fetch(`${system.gateway.url}/agents/waiter/${name}?what=${query}`, {
    signal: gone.signal,
  });
  answer.catch(() => undefined);
  await hears(begun);
  gone.abort();
  await expect(answer).rejects.toThrow();
}

const connect = (): AgentClient =>
  new AgentClient({
    host: system.gateway.url.replace("http://", ""),
    protocol: "ws",
    agent: "waiter",
    name: "called",
    WebSocket,
  });

test("a closed HTTP request aborts the signal of its turn, and that of its request", async () => {
  await leave("one", "wait", "request began");
  await hears("request aborted: AbortError");
  await hears("request.signal aborted");
});

test("a fetch of a turn whose caller has left is aborted; one with signal null continues", async () => {
  await leave("two", "fetch", "fetch began");
  await hears("fetch: AbortError");
  await hears("the slow server was left");
  await leave("two", "apart", "apart began");
  await hears("request aborted: AbortError");
  slow.closeAllConnections();
  await hears("apart: TypeError");
});

test("a stub's call of a turn whose caller has left is cancelled on the other agent", async () => {
  await leave("three", "stub", "wait began");
  await hears("stub: AbortError");
  await hears("wait aborted: AbortError");
});

test("a caller that leaves in the middle of a stream aborts the signal of its turn", async () => {
  const gone = new AbortController();
  const url = `${system.gateway.url}/agents/waiter/four?what=stream`;
  const response = await fetch(url, { signal: gone.signal });
  await response.body!.getReader().read();
  gone.abort();
  await hears("stream aborted");
});

test("a client's cancelled call rejects with its reason, and aborts the signal of its turn", async () => {
  const client = connect();
  try {
    const cancel = new AbortController();
    const call = client.call("wait", [], { signal: cancel.signal });
    await hears("wait began");
    cancel.abort(new Error("changed my mind"));
    await expect(call).rejects.toThrow("changed my mind");
    await hears("wait aborted: AbortError");
    // The same socket goes on.
    expect(await client.call("ping")).toBe("pong");
    await expect(client.call("ping", [], { signal: cancel.signal })).rejects.toThrow("my mind");
  } finally {
    client.close();
  }
});

test("a cancelled streaming call aborts the signal of its turn; a socket that closes does not", async () => {
  const client = connect();
  const cancel = new AbortController();
  const call = client.call("streamed", [], {
    signal: cancel.signal,
    stream: { onChunk: () => undefined },
  });
  call.catch(() => undefined);
  await hears("stream began");
  cancel.abort();
  await hears("stream aborted: AbortError");
  heard.length = 0;
  const other = client.call("wait");
  other.catch(() => undefined);
  await hears("wait began");
  client.close();
  await hears("closed");
  release();
  await hears("wait goes on");
});
