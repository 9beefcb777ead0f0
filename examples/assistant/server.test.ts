/**
 * The assistant in memory, with a model that counts: an answer survives the loss of its host at any
 * point.
 */
import { afterEach, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as server from "./server.ts";

const TOKENS = Array.from({ length: 20 }, (_, n) => `word${n} `);
const TEXT = TOKENS.join("");
/** Milliseconds between tokens, and what was asked. */
const TOKEN_MS = 50;
let asked: string[] = [];
let keys: Set<string>;
/** The model answers nothing; the tools work. */
let isAway = false;

let test: TestAgents;
const start = async (): Promise<void> => {
  asked = [];
  keys = new Set();
  isAway = false;
  test = await testAgents({
    module: server,
    env: { MODEL_URL: "http://model" },
    outgoing: async (request) => {
      const name = new URL(request.url).pathname.split("/").at(-1)!;
      const { prefix = "" } = (await request.json()) as { prefix?: string };
      if (isAway && name === "answer") return new Response("away", { status: 503 });
      asked.push(name === "answer" ? `answer from ${prefix.length}` : name);
      if (name !== "answer") keys.add(request.headers.get("idempotency-key")!);
      const results: Record<string, unknown> = { search: ["a fact"], quote: 3, charge: "charged" };
      return name === "answer" ? new Response(tokensAfter(prefix)) : Response.json(results[name]);
    },
  });
};
afterEach(() => test.close());

/** The model goes on where it is. */
function tokensAfter(prefix: string): ReadableStream<Uint8Array> {
  let text = "";
  const rest = TOKENS.filter((token) => (text += token).length > prefix.length);
  return new ReadableStream({
    async pull(controller) {
      const token = rest.shift();
      if (token === undefined) return controller.close();
      await new Promise((resolve) => setTimeout(resolve, TOKEN_MS));
      controller.enqueue(new TextEncoder().encode(`${JSON.stringify(token)}\n`));
    },
  });
}

const url = "/agents/assistant-agent/ada?id=1";
const ask = () => test.fetch(url, { method: "POST", body: "why" });
const assistant = () => test.agent(server.AssistantAgent, "ada");
/** The whole answer, as a reader receives it. */
async function read(): Promise<string> {
  const text = await (await test.fetch(url)).text();
  return [...text.matchAll(/^data: (".*")$/gm)]
    .map(([, data]) => JSON.parse(data!) as string)
    .join("");
}

it("answers a question once, however often it is asked", async () => {
  await start();
  expect((await ask()).status).toBe(202);
  expect((await ask()).status).toBe(202);
  expect(await read()).toBe(TEXT);
  await test.settled();
  expect(asked).toEqual(["search", "quote", "charge", "answer from 0"]);
  expect(await assistant().state()).toEqual({ answered: 1, charged: 3 });
  await ask();
  await test.settled();
  expect(asked).toHaveLength(4);
});

it("goes on after its host is lost: no tool runs again, and the model from what is stored", async () => {
  await start();
  await ask();
  for (const _ of [1, 2, 3]) {
    await test.advance(300);
    await test.crash();
    await test.revive();
  }
  await test.settled();
  expect(await read()).toBe(TEXT);
  expect(await assistant().state()).toEqual({ answered: 1, charged: 3 });
  expect(keys.size).toBe(3);
  const from = asked
    .filter((each) => each.startsWith("answer"))
    .map((each) => Number(each.split(" ").at(-1)));
  expect(from.length).toBeGreaterThan(2);
  expect(from).toEqual(from.toSorted((a, b) => a - b));
  expect(asked.filter((each) => !each.startsWith("answer"))).toEqual(["search", "quote", "charge"]);
});

it("a client's call receives the answer from its first token", async () => {
  await start();
  const client = await test.connect(server.AssistantAgent, "ada");
  await client.call("ask", ["1", "why"]);
  const { chunks, result } = await client.stream("watch", ["1"]);
  expect(chunks.join("")).toBe(TEXT);
  expect(result).toEqual({ tokens: TOKENS.length, price: 3 });
});

it("tells readers that there is no answer when the attempts are spent; a redrive makes one", async () => {
  await start();
  isAway = true;
  await ask();
  const reader = test.fetch(url).then((response) => response.text());
  await test.advance("1m");
  await test.advance("2m");
  await test.settled();
  expect(await reader).toContain("event: failed");
  const [letter] = await test.deadLetters();
  isAway = false;
  await test.redrive(letter!);
  expect(await read()).toBe(TEXT);
  expect(await assistant().state()).toEqual({ answered: 1, charged: 3 });
  expect(keys.size).toBe(3); // the tools were asked again, under the same keys
});

it("refuses ids that no stream can have, and to start without a model", async () => {
  await start();
  const at = (id: string) =>
    test.fetch(`/agents/assistant-agent/ada?id=${id}`, { method: "POST", body: "why" });
  expect((await at("")).status).toBe(400);
  expect((await at("x".repeat(257))).status).toBe(400);
  await using without = await testAgents({ module: server });
  await expect(without.agent(server.AssistantAgent, "ada").ask("1", "why")).rejects.toThrow(
    "MODEL_URL is not set",
  );
});
