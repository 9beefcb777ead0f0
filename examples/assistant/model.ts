/**
 * Simulates the language model and the tools of the assistant over HTTP: each question has one
 * answer, which is streamed token by token after a given prefix. It counts requests, and records
 * those that should not have been made. `npx tsx examples/assistant/model.ts` listens on port 8799.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** Named points of a request, at which a test can end a host. */
export const POINTS = [
  "search asked",
  "search answered",
  "quote asked",
  "charge asked",
  "charge answered",
  "answer asked",
  "answer half",
  "answer whole",
] as const;
export type Point = (typeof POINTS)[number];

export interface Model {
  readonly url: string;
  /** Runs of each tool, by its idempotency key. */
  readonly tools: Record<"search" | "quote" | "charge", Map<string, number>>;
  /** For each agent, the length of each prefix after which an answer was requested. */
  readonly prefixes: Map<string, number[]>;
  /** Requests that can't be right. */
  readonly mistakes: string[];
  stop(): Promise<void>;
}

export interface ModelOptions {
  /** 0: any. */
  readonly port?: number;
  readonly tokenMs?: number;
  /**
   * Called at each point of an agent's request, which continues when it resolves. `via`: the path
   * before the tool, which distinguishes hosts by their addresses.
   */
  readonly at?: (point: Point, agent: string, via: string) => Promise<void> | void;
}

/** The tokens of each answer. */
const TOKENS = 60;
/** The order of a question's requests. */
const ORDER = ["search", "quote", "charge", "answer"];

/** The one answer to a question. */
export const tokensOf = (question: string): string[] =>
  Array.from({ length: TOKENS }, (_, n) => (n === 0 ? `${question}:` : ` word${n}`));

export async function startModel(options: ModelOptions = {}): Promise<Model> {
  const { port = 0, tokenMs = 20, at = () => undefined } = options;
  const tools: Model["tools"] = { search: new Map(), quote: new Map(), charge: new Map() };
  const prefixes: Model["prefixes"] = new Map();
  const mistakes: string[] = [];
  /** How far each question has come. */
  const furthest = new Map<string, number>();

  /** A later request shows that the earlier answer is stored and no longer needed. */
  function follows({ agent, id }: Body, name: string): void {
    const place = ORDER.indexOf(name);
    const question = `${agent} ${id}`;
    const before = furthest.get(question) ?? 0;
    if (place < before) mistakes.push(`${question}: ${name} was asked after ${ORDER[before]}`);
    furthest.set(question, Math.max(place, before));
  }

  async function tool(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [name, via] = [nameOf(request), viaOf(request)];
    const body = await bodyOf(request);
    const { agent, question = "" } = body;
    follows(body, name);
    const key = String(request.headers["idempotency-key"] ?? "");
    if (key === "") mistakes.push(`${name} without an idempotency key`);
    await at(`${name} asked` as Point, agent, via);
    tools[name].set(key, (tools[name].get(key) ?? 0) + 1);
    const results = { search: [`about ${question}`], quote: 3, charge: "charged" };
    response.end(JSON.stringify(results[name]));
    if (name !== "quote") await at(`${name} answered` as Point, agent, via);
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request);
    const { agent, question = "", prefix = "" } = body;
    follows(body, "answer");
    const via = viaOf(request);
    const tokens = tokensOf(question);
    const from = tokens.findIndex((_, n) => tokens.slice(0, n).join("") === prefix);
    const known = prefix === tokens.join("") ? tokens.length : from;
    if (known < 0) mistakes.push(`${agent}: no prefix of its answer: ${prefix}`);
    prefixes.set(agent, [...(prefixes.get(agent) ?? []), prefix.length]);
    await at("answer asked", agent, via);
    for (let n = Math.max(0, known); n < tokens.length && !response.destroyed; n++) {
      response.write(`${JSON.stringify(tokens[n])}\n`);
      if (n === TOKENS / 2) await at("answer half", agent, via);
      await sleep(tokenMs);
    }
    await at("answer whole", agent, via);
    response.end();
  }

  const server = createServer((request, response) => {
    const handle = request.url!.endsWith("/answer") ? answer : tool;
    handle(request, response).catch((error: unknown) => {
      mistakes.push(String(error));
      response.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    tools,
    prefixes,
    mistakes,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const nameOf = ({ url }: IncomingMessage) => url!.split("/").at(-1) as keyof Model["tools"];
const viaOf = ({ url }: IncomingMessage): string => url!.split("/")[1]!;

type Body = Record<string, string> & { readonly agent: string; readonly id: string };

async function bodyOf(request: IncomingMessage): Promise<Body> {
  let text = "";
  for await (const piece of request) text += String(piece);
  return JSON.parse(text) as never;
}

if (process.argv[1]?.endsWith("model.ts")) {
  const { url } = await startModel({ port: 8799, tokenMs: 100 });
  console.log(`the model listens on ${url}`);
}
