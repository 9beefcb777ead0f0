/** Responses whose bodies are still being made, from an agent or through stubs to the caller. */
import { beforeAll, expect, test } from "vitest";
import { Agent, getAgentByName } from "agents";
import type { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";
import { pollUntil } from "../kit/poll.ts";
import { useSystems, type System } from "./kit.ts";

const MIB = 1024 * 1024;
const encoder = new TextEncoder();

class StreamAgent extends Agent<Record<string, AgentNamespace>, { readonly told: number }> {
  static override options = { hibernateAfterSeconds: 0.2 };
  override initialState = { told: 0 };
  private tell: ((text: string) => void) | undefined;
  private fail: (() => void) | undefined;
  cancelled = false;

  override async onRequest(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname.split("/").at(-1);
    if (path === "large") return new Response(this.large());
    if (path === "through") {
      const other = await getAgentByName(this.env["StreamAgent"]!, "source");
      return other.fetch(new URL("large", request.url));
    }
    if (path === "broken") throw new Error("broken before it began");
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.tell = (text) => controller.enqueue(encoder.encode(`data: ${text}\n\n`));
        this.fail = () => controller.error(new Error("it broke"));
        this.tell(`hello of ${this.name}`);
      },
      cancel: () => void (this.cancelled = true),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }
  /** Its pieces come with pauses, so that it can't be answered whole. */
  private large(): ReadableStream<Uint8Array> {
    let n = 0;
    return new ReadableStream({
      pull: async (controller) => {
        await new Promise((resolve) => setImmediate(resolve));
        if (n === 20) return controller.close();
        controller.enqueue(new Uint8Array(MIB).fill(n++));
      },
    });
  }
  say(text: string): void {
    this.setState({ told: this.state.told + 1 });
    this.tell?.(text);
  }
  breakOff(): void {
    this.fail?.();
  }
  wasCancelled(): boolean {
    return this.cancelled;
  }
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  system = await systems.start({ agents: { StreamAgent } });
});
const stub = (name: string) =>
  getAgentByName(system.gateway.env["StreamAgent"] as AgentNamespace<StreamAgent>, name);
const url = (name: string, path = ""): string =>
  `${system.url}/agents/stream-agent/${name}/${path}`;

const events = async (name: string) => {
  const response = await fetch(url(name, "events"));
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  return { reader, next: async () => (await reader.read()).value };
};

test("server-sent events arrive one by one, as the agent sends them", async () => {
  const { reader, next } = await events("one");
  expect(await next()).toBe("data: hello of one\n\n");
  const agent = await stub("one");
  for (const text of ["a", "b"]) {
    await agent.say(text);
    expect(await next()).toBe(`data: ${text}\n\n`);
  }
  await reader.cancel();
  await pollUntil("the agent hears that its caller has gone", () => agent.wasCancelled());
});

test("an agent that is streaming does not hibernate, and does afterwards", async () => {
  const { reader, next } = await events("awake");
  await next();
  const agent = await stub("awake");
  // Longer than it stays without a stream.
  await new Promise((resolve) => setTimeout(resolve, 700));
  await agent.say("still here");
  expect(await next()).toBe("data: still here\n\n");
  await reader.cancel();
  await pollUntil("it hibernates", () => system.host.host.agentsActive === 0);
});

test.each(["large", "through"])("a large body arrives whole, piece by piece: %s", async (path) => {
  const response = await fetch(url("source-of-it", path));
  expect(response.headers.get("content-length")).toBeNull();
  const body = new Uint8Array(await response.arrayBuffer());
  expect(body.length).toBe(20 * MIB);
  for (let n = 0; n < 20; n++) expect(body[n * MIB + 7]).toBe(n);
});

test("a stream that fails cuts off the caller's body, and one that never began is a 500", async () => {
  const { next } = await events("failing");
  await next();
  await (await stub("failing")).breakOff();
  await expect(next()).rejects.toThrow();
  expect((await fetch(url("failing", "broken"))).status).toBe(500);
});

test("when the host stops, the body is cut off, and the caller can ask again", async () => {
  const own = await systems.start({ agents: { StreamAgent } });
  const response = await fetch(`${own.url}/agents/stream-agent/left/events`);
  const reader = response.body!.getReader();
  await reader.read();
  await own.host.stop();
  await expect(reader.read()).rejects.toThrow();
});
