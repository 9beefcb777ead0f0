/**
 * The record of a delivery and its line in the log, both created when the gateway answers. Every
 * webhook passes here, so that a line is only built if it is written.
 */
import { requestLineOf, severityOfDelivery } from "../../core/delivery/deliveryLine.ts";
import { traceIdOf, type Span } from "../../core/telemetry/Tracing.ts";
import type { WebhookRequest, WebhookRoute } from "../../core/webhook/WebhookRoute.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { DeliveryRecord, DeliveryStatus } from "../../schemas/DeliveryRecord.ts";
import type { GatewayServices } from "./GatewayServices.ts";

/** What the gateway knows about a delivery when it answers. */
export interface DeliveryEnd {
  readonly status: DeliveryStatus;
  readonly why?: string | undefined;
  readonly seq?: number | undefined;
  readonly duplicateOf?: number | undefined;
  readonly parts?: number | undefined;
  /** The URL that a refused signature was checked for, without query. For the log line only. */
  readonly url?: string | undefined;
  /** Whether the host has written the log line. */
  readonly reported?: boolean | undefined;
}

/** The input that a request became. */
export interface DeliveredInput {
  readonly id: AgentId;
  readonly key: string;
  readonly type: string | undefined;
}

/** The part of `IncomingWebhook` that the record needs. */
interface Delivered {
  readonly id: string;
  readonly route: WebhookRoute;
  readonly request: WebhookRequest;
  readonly input: DeliveredInput | undefined;
  readonly span: Span | undefined;
}

type Answered = DeliveryEnd & { readonly http: number; readonly ms: number };
type Mutable<A> = { -readonly [K in keyof A]: A[K] };

/** The first record of a delivery. */
export function deliveryRecord(
  { id, route, request, input, span }: Delivered,
  end: Answered & { readonly from: string | undefined },
): DeliveryRecord {
  // Set field by field, without spreads, because this is a hot path. Digits beyond the clock's
  // precision would only take space.
  const record: Mutable<DeliveryRecord> = {
    id,
    at: Math.round(request.nowMs + end.ms),
    status: end.status,
    time: request.nowMs,
    route: route.path,
    provider: route.verifier.provider,
    method: request.method,
    bytes: request.body.length,
    http: end.http,
    ms: Math.round(end.ms * 1_000) / 1_000,
  };
  if (input !== undefined) {
    record.agent = [input.id.class, input.id.name];
    record.key = input.key;
    if (input.type !== undefined) record.type = input.type;
  }
  if (end.from !== undefined) record.from = end.from;
  if (end.seq !== undefined) record.seq = end.seq;
  if (end.duplicateOf !== undefined) record.duplicateOf = end.duplicateOf;
  if (end.parts !== undefined) record.parts = end.parts;
  if (end.why !== undefined) record.why = end.why;
  const trace = traceIdOf(span?.traceparent);
  if (trace !== undefined) record.trace = trace;
  return record;
}

export function reportDelivery(
  { requests, deliveries }: Pick<GatewayServices, "requests" | "deliveries">,
  record: DeliveryRecord,
  { reported = false, url }: DeliveryEnd,
): void {
  deliveries?.record(record);
  if (reported) return;
  requests?.write(severityOfDelivery(record), () => ({ ...requestLineOf(record), url }));
}
