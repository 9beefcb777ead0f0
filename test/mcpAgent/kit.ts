/** What the tests of MCP servers share: the SDK's clients, over real HTTP. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

/** The text of a tool's answer. */
export const textOf = (answer: object): string =>
  (answer as { readonly content: ReadonlyArray<{ readonly text?: string }> }).content[0]?.text ??
  "";

export interface ConnectOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** A session that goes on. */
  readonly sessionId?: string;
  /** How it answers questions; without one it says that it can't be asked. */
  readonly answer?: () => { action: "accept" | "decline"; content?: Record<string, number> };
}

/** A client of the protocol with sessions, connected. */
export async function connectClient(url: string, options: ConnectOptions = {}) {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...options.headers } },
    ...(options.sessionId === undefined ? {} : { sessionId: options.sessionId }),
    reconnectionOptions: {
      initialReconnectionDelay: 100,
      maxReconnectionDelay: 500,
      reconnectionDelayGrowFactor: 1.5,
      maxRetries: 100,
    },
  });
  const { answer } = options;
  const client = new Client(
    { name: "test", version: "1.0.0" },
    { capabilities: answer === undefined ? {} : { elicitation: {} } },
  );
  if (answer !== undefined) client.setRequestHandler("elicitation/create", async () => answer());
  await client.connect(transport);
  return {
    client,
    transport,
    call: async (name: string, args: Record<string, unknown> = {}): Promise<string> =>
      textOf(await client.callTool({ name, arguments: args })),
  };
}

export const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: { elicitation: {} },
    clientInfo: { name: "raw", version: "1" },
  },
};

/** One message of the protocol as plain HTTP. */
export const post = (
  url: string,
  message: unknown,
  session?: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> =>
  fetch(url, {
    method: "POST",
    headers: {
      ...headers,
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": "2025-11-25",
      ...(session === undefined ? {} : { "mcp-session-id": session }),
    },
    body: JSON.stringify(message),
  });

/** The events of a stream, until `enough` or its end. */
export async function eventsOf(
  response: Response,
  enough: (events: ReadonlyArray<SseEvent>) => boolean = () => false,
): Promise<ReadonlyArray<SseEvent>> {
  const events: SseEvent[] = [];
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; !enough(events);) {
    const { done, value } = await reader.read();
    if (done) return events;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop()!;
    events.push(...parts.map(parseEvent).filter((event) => event !== undefined));
  }
  await reader.cancel();
  return events;
}

export interface SseEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string;
}

function parseEvent(text: string): SseEvent | undefined {
  const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, "m").exec(text)?.[1];
  const data = field("data");
  return data === undefined ? undefined : { id: field("id"), event: field("event"), data };
}
