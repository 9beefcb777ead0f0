/** One server that is driven, and what was seen of it, without ids and times: comparable. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { AgentClient } from "reference-agents/client";
import { WebSocket } from "ws";
import { pollUntil } from "../../kit/poll.ts";

/** Longer than any answer takes on a busy machine; what takes longer is seen as no answer. */
const ANSWER_TIMEOUT_MS = 30_000;

/** What is seen of an act that did not end. */
export const NO_ANSWER = "error: no answer";

export interface Socket {
  readonly client: AgentClient;
  /** What the app sent, as text, in order. */
  readonly messages: string[];
  /** The lists of MCP servers that the client was sent, in order. */
  readonly mcpServers: object[];
  readonly call: (method: string, ...args: ReadonlyArray<unknown>) => Promise<unknown>;
}

export interface McpOptions {
  /** How it answers questions; without one it says that it can't be asked. */
  readonly answer?: (params: object) => object;
  /** The newer protocol, in which a tool asks by its result. */
  readonly rounds?: boolean;
}

export class Driver {
  readonly seen = new Map<string, string>();
  readonly url: string;
  readonly #open: Array<() => unknown> = [];

  constructor(url: string) {
    this.url = url.replace(/\/$/, "");
  }

  /** Notes what `act` returns or rejects with. */
  async see(what: string, act: () => unknown): Promise<void> {
    this.seen.set(what, await outcome(act));
  }

  /** Notes what `look` returns once it is not undefined. */
  async seeLater(what: string, look: () => unknown): Promise<void> {
    const found = async (): Promise<unknown> =>
      pollUntil(what, async () => {
        const value = await look();
        return value === undefined ? false : { done: true as const, value };
      });
    this.seen.set(what, await outcome(found));
  }

  async http(path: string, init?: RequestInit): Promise<object> {
    const response = await fetch(this.url + path, init);
    return { status: response.status, text: await response.text() };
  }

  /** The reference's published client, connected. */
  async socket(options: object): Promise<Socket> {
    const messages: string[] = [];
    const mcpServers: object[] = [];
    const client = new AgentClient({
      host: new URL(this.url).host,
      WebSocket,
      agent: "",
      ...options,
    } as unknown as ConstructorParameters<typeof AgentClient>[0]);
    client.addEventListener("message", ({ data }) => {
      const text = String(data);
      if (!/"type":"(?:cf_agent|rpc)/.test(text)) messages.push(text);
      if (text.includes('"cf_agent_mcp_servers"'))
        mcpServers.push((JSON.parse(text) as { readonly mcp: object }).mcp);
    });
    this.#open.push(() => client.close());
    return {
      client: client as AgentClient,
      messages,
      mcpServers,
      call: (method, ...args) => (client as AgentClient).call(method, [...args]),
    };
  }

  /** What a streaming method sends, and at the end what it returns. Rejects with its error. */
  async chunks(
    { client }: Socket,
    method: string,
    ...args: ReadonlyArray<unknown>
  ): Promise<ReadonlyArray<unknown>> {
    const chunks: unknown[] = [];
    const last = await new Promise((resolve, reject) => {
      const stream = {
        onChunk: (chunk: unknown) => chunks.push(chunk),
        onDone: resolve,
        onError: (error: unknown) => reject(new Error(String(error))),
      };
      client.call(method, [...args], { stream } as never).catch(reject);
    });
    return [...chunks, last];
  }

  /** The SDK's client of an MCP server, connected. */
  async mcp(path: string, { answer, rounds }: McpOptions = {}) {
    const transport = new StreamableHTTPClientTransport(new URL(this.url + path));
    const capabilities = answer === undefined ? {} : { elicitation: { form: {}, url: {} } };
    const negotiation = rounds === true ? { versionNegotiation: { mode: "auto" as const } } : {};
    const client = new Client({ name: "driver", version: "1" }, { capabilities, ...negotiation });
    if (answer !== undefined)
      client.setRequestHandler("elicitation/create", ({ params }) => answer(params) as never);
    await client.connect(transport);
    this.#open.push(() => client.close());
    return { client, transport };
  }

  async close(): Promise<void> {
    for (const end of this.#open.splice(0)) await end();
  }
}

async function outcome(act: () => unknown): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer")), ANSWER_TIMEOUT_MS);
  });
  try {
    return withoutChance(JSON.stringify(await Promise.race([act(), late]), sorted) ?? "undefined");
  } catch (error) {
    return withoutChance(`error: ${(error as Error).message}`);
  } finally {
    clearTimeout(timer);
  }
}

/** The order of an object's keys is nobody's promise. */
const sorted = (_key: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** Texts that differ between two runs of one server. */
const CHANCE: ReadonlyArray<readonly [RegExp, string]> = [
  [/[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/g, "<uuid>"],
  [/\bwf_[\w-]{21,22}/g, "<workflow>"],
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>"],
  [/\d{1,2}:\d\d:\d\d(?:.[AP]M)?/g, "<time>"],
  [/\b1[7-9]\d{8}(?:\.\d+|\d{3})?\b/g, "<time>"],
  [/("(?:id|connectionId|sessionId|messageId)":)"[^"]*"/g, '$1"<id>"'],
  [/("(?:duration|totalDuration)":)\d+/g, "$1<ms>"],
  [/127\.0\.0\.1:\d+/g, "<host>"],
];

const withoutChance = (text: string): string =>
  CHANCE.reduce((before, [pattern, by]) => before.replace(pattern, by), text);
