/**
 * The protocol's older transport, for one client of an agent: a stream of server-sent events, and
 * messages that the client posts beside it. The session is the stream: it ends with it.
 */
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { JSONRPCMessageSchema, type JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { bytesOf, jsonOf, MESSAGE_BYTES_MAX, messageRefusal } from "../mcpHandler/messageBounds.ts";
import { boundedBody } from "./boundedBody.ts";
import { noSession } from "./refusals.ts";

const encoder = new TextEncoder();

export class SseTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport["onmessage"];
  readonly sessionId: string;
  readonly #messagePath: string;
  #stream: ReadableStreamDefaultController<Uint8Array> | undefined;

  /** `messagePath` is where the client posts, with its session. */
  constructor(sessionId: string, messagePath: string) {
    this.sessionId = sessionId;
    this.#messagePath = messagePath;
  }

  async start(): Promise<void> {}

  /** The stream, which begins with the address for the client's messages. */
  open(): Response {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#stream = controller;
        this.#write("endpoint", this.#messagePath);
      },
      cancel: () => this.close(),
    });
    return new Response(boundedBody(body), {
      headers: { "content-type": "text/event-stream", "cache-control": "no-cache, no-transform" },
    });
  }

  /** A client's message: 202, 400 if invalid, 413 if too large, 404 when the stream has ended. */
  async receive(request: Request): Promise<Response> {
    if (this.#stream === undefined) return noSession();
    const bytes = await bytesOf(request);
    const refusal = messageRefusal(bytes, MESSAGE_BYTES_MAX);
    if (refusal !== undefined) return refusal;
    const parsed = JSONRPCMessageSchema.safeParse(jsonOf(bytes));
    if (!parsed.success) return new Response("Invalid message", { status: 400 });
    this.onmessage?.(parsed.data, {
      requestInfo: { headers: Object.fromEntries(request.headers), url: new URL(request.url) },
    });
    return new Response("Accepted", { status: 202 });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#stream === undefined) throw new Error("The client's stream has ended");
    this.#write("message", JSON.stringify(message));
  }

  async close(): Promise<void> {
    const stream = this.#stream;
    if (stream === undefined) return;
    this.#stream = undefined;
    try {
      stream.close();
    } catch {
      // Cancelled by the client: closed already.
    }
    this.onclose?.();
  }

  #write(event: string, data: string): void {
    this.#stream?.enqueue(encoder.encode(`event: ${event}\ndata: ${data}\n\n`));
  }
}
