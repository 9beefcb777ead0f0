/** Servers that send more than a host can take: events, requests, batches, slow schemas. */
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { addressGuard } from "../../services/mcp/addressGuard.ts";
import { EventPace, EventSplitter } from "../../services/mcp/EventPace.ts";
import { guardedFetch } from "../../services/mcp/guardedFetch.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import { listen, rpc } from "./kit.ts";
import { ToolAgent } from "./toolModule.ts";

const systems = useSystems();
let system: System;
beforeAll(async () => {
  system = await systems.start({ agents: { ToolAgent } });
});
const stops: Array<() => Promise<void> | void> = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

interface Message {
  readonly id?: number;
  readonly method?: string;
}

/** A server with one tool. */
async function serve({ tool = {}, result = {} }) {
  const server = await listen((request, response) => {
    if (request.method === "GET") return response.writeHead(405).end();
    let text = "";
    request.on("data", (part: Buffer) => (text += String(part)));
    request.on("end", () => {
      const { id, method } = JSON.parse(text || "{}") as Message;
      const results: Readonly<Record<string, unknown>> = {
        initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "flood", version: "1" } }, // prettier-ignore
        "tools/list": { tools: [{ name: "t", inputSchema: { type: "object" }, ...tool }] },
        "tools/call": { content: [], ...result },
      };
      const found = results[method ?? ""];
      if (found === undefined) return response.writeHead(202).end();
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result: found }));
    });
  });
  stops.push(server.close);
  return server;
}

const open = (name: string) => TestSocket.open(`${system.url}/agents/tool-agent/${name}`);

test("a tool's result is not checked by the schema that its server sent", async () => {
  const properties = { a: { type: "string", pattern: "^b$" } };
  const outputSchema = { type: "object", properties };
  const { url } = await serve({
    tool: { outputSchema },
    result: { structuredContent: { a: "c" } },
  });
  const socket = await open("schema");
  await rpc(socket, "add", "S", url, { id: "s" });
  expect(await rpc(socket, "call", "s", "t", {})).toMatchObject({ structuredContent: { a: "c" } });
});

/** At the pace, their reading takes 100 s. */
const EVENTS = 20_000;

describe("a request to a server", () => {
  const fetchOf = (url: string, broken?: (message: string) => void) => {
    const guarded = guardedFetch(addressGuard(new URL(url), { allowLoopback: true }), broken);
    stops.unshift(guarded.close);
    return guarded.fetch;
  };

  test("breaks the connection when 2,000 others are unanswered", async () => {
    const { url, close } = await listen(() => undefined);
    stops.push(close);
    const breaks: string[] = [];
    const fetch = fetchOf(url, (message) => breaks.push(message));
    const others = Array.from({ length: 2_000 }, () => fetch(url).then(String, String));
    expect(breaks).toEqual([]);
    await expect(fetch(url)).rejects.toThrow("leaves too many requests unanswered: 2000");
    expect(breaks).toHaveLength(1);
    for (const stop of stops.splice(0)) await stop();
    expect(await Promise.all(others)).toHaveLength(2_000);
  });

  test("is answered while an event stream is read at its limited rate", async () => {
    const event = "data: {}\n\n";
    const { url, close } = await listen(({ method }, response) => {
      if (method === "POST") return response.end("answer");
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(event.repeat(EVENTS));
    });
    stops.push(close);
    const fetch = fetchOf(url);
    const reader = (await fetch(url)).body!.getReader();
    let events = 0;
    const read = async (): Promise<void> => {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        events += value.length / event.length;
      }
    };
    void read().catch(() => undefined); // it is ended with the test
    for (let n = 0; n < 20; n += 1)
      expect(await (await fetch(url, { method: "POST" })).text()).toBe("answer");
    expect(events).toBeGreaterThan(0);
    expect(events).toBeLessThan(EVENTS);
  });

  /** Answers with these parts, each a chunk of its own. */
  const answerOf = async (...parts: string[]): Promise<string> => {
    const { url, close } = await listen((_request, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      for (const part of parts) response.write(part);
      response.end();
    });
    stops.push(close);
    return (await fetchOf(url)(url)).text();
  };
  const batch = `[${"1,".repeat(40_000)}1]`;

  test("is answered by a batch of at most 64 KiB", async () => {
    const object = `{"a":"${"1".repeat(80_000)}"}`;
    expect(await answerOf("[1]")).toBe("[1]");
    expect(await answerOf(object)).toBe(object);
    expect(await answerOf("\n", object)).toBe(`\n${object}`);
  });

  test.each([
    ["a blank", [` ${batch}`]],
    ["100 blanks", [" ".repeat(100) + batch]],
    ["a chunk of white space", ["\r\n\t", batch]],
    ["a byte order mark", [`\uFEFF${batch}`]],
    ["a byte order mark and blanks in chunks", ["\uFEFF", " ", batch]],
    ["more white space than that", [" ".repeat(70_000), "[1]"]],
  ])("is not answered by a larger batch after %s", async (_what, parts) => {
    const bytes = answerOf(...parts).then(({ length }) => length);
    await expect(bytes).rejects.toThrow("too large: more than 65536 bytes");
  });
});

describe("the pace", () => {
  test("lets 200 events pass at once, then 200 a second, whichever streams have them", () => {
    let nowMs = 1_000;
    const pace = new EventPace(() => nowMs);
    expect([pace.take(200), pace.take(1), pace.take(99)]).toEqual([0, 5, 500]);
    nowMs += 500;
    expect([pace.take(0), pace.take(50)]).toEqual([0, 250]);
    nowMs += 10_000;
    expect([pace.take(200), pace.take(2)]).toEqual([0, 10]);
  });

  const counted = (...chunks: string[]): number => {
    const splitter = new EventSplitter();
    const cut = chunks.flatMap((chunk) => [...splitter.pieces(Buffer.from(chunk))]);
    expect(cut.map(({ bytes }) => String(bytes)).join("")).toBe(chunks.join(""));
    return cut.reduce((sum, { events }) => sum + events, 0);
  };

  test.each(["\n", "\r\n", "\r"])(
    "counts events that end in %j, wherever they are split",
    (end) => {
      const text = `data: a${end}data: b${end}${end}data: c${end}${end}`;
      expect(counted(text)).toBe(2);
      expect(counted(...text)).toBe(2);
    },
  );

  test("passes a chunk of many events on in pieces of 50", () => {
    const pieces = [...new EventSplitter().pieces(Buffer.from("data: a\n\n".repeat(120)))];
    expect(pieces.map(({ events }) => events)).toEqual([50, 50, 20]);
  });
});
