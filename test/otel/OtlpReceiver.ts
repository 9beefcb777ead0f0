/** Receives traces as OTLP over HTTP with JSON, and keeps their spans. All else is answered 200. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

interface OtlpValue {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
}
interface OtlpAttribute {
  readonly key: string;
  readonly value: OtlpValue;
}
interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes?: ReadonlyArray<OtlpAttribute>;
  readonly status?: { readonly code?: number; readonly message?: string };
}
interface OtlpTraces {
  readonly resourceSpans: ReadonlyArray<{
    readonly resource: { readonly attributes: ReadonlyArray<OtlpAttribute> };
    readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<OtlpSpan> }>;
  }>;
}

export interface ReceivedSpan {
  readonly trace: string;
  readonly id: string;
  readonly parent: string | undefined;
  readonly name: string;
  readonly service: unknown;
  readonly failed: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
}

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** The `traceparent` of each other request, by path. */
  readonly called = new Map<string, string | undefined>();
  private constructor(private readonly server: Server) {}

  static async start(): Promise<OtlpReceiver> {
    const server = createServer((request, response) => {
      const { url = "/" } = request;
      if (url !== "/v1/traces") {
        receiver.called.set(url, request.headers["traceparent"] as string | undefined);
        return void response.end("called");
      }
      void readJson(request).then((traces) => {
        receiver.take(traces);
        response.setHeader("content-type", "application/json").end("{}");
      });
    });
    const receiver = new OtlpReceiver(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private take({ resourceSpans }: OtlpTraces): void {
    for (const { resource, scopeSpans } of resourceSpans)
      for (const span of scopeSpans.flatMap(({ spans }) => spans))
        this.spans.push({
          trace: span.traceId,
          id: span.spanId,
          parent: span.parentSpanId === "" ? undefined : span.parentSpanId,
          name: span.name,
          service: record(resource.attributes)["service.name"],
          failed: span.status?.code === FAILED,
          attributes: record(span.attributes ?? []),
        });
  }
}

/** `STATUS_CODE_ERROR` of the protocol. */
const FAILED = 2;

async function readJson(request: IncomingMessage): Promise<OtlpTraces> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString()) as OtlpTraces;
}

const record = (attributes: ReadonlyArray<OtlpAttribute>): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
