/**
 * Passes the end of a run to the request log, and that of a webhook to the delivery log. A
 * webhook that its gateway answers in time is not reported here (`InputRuns`).
 */
import { defined } from "../../core/collections/defined.ts";
import { requestLineOf, severityOfDelivery } from "../../core/delivery/deliveryLine.ts";
import type { RequestLine, Severity } from "../../core/telemetry/RequestLog.ts";
import { traceIdOf } from "../../core/telemetry/Tracing.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import type { TurnEnd } from "../../core/turn/TurnEnd.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import type { HostServices } from "./HostServices.ts";

export function reportTurn(services: HostServices, id: AgentId, turn: Turn, end: TurnEnd): void {
  const { requests, deliveries, time } = services;
  const { cause } = turn;
  if (cause.delivery === undefined) {
    const severity = SEVERITIES[end.status];
    return requests?.write(severity, () => lineOf(id, cause, end, time.nowMs()));
  }
  const record = recordOf(cause.delivery, id, turn, end, time.nowMs());
  deliveries?.record(record);
  const { method, time: cameMs } = cause;
  requests?.write(severityOfDelivery(record), () =>
    requestLineOf({
      ...record,
      ...defined({ method, ms: cameMs === undefined ? undefined : record.at - cameMs }),
    }),
  );
}

/** The line of a run that no webhook caused. */
function lineOf(
  id: AgentId,
  cause: Turn["cause"],
  { status, seq, attempts, nextInMs, error: why }: TurnEnd,
  nowMs: number,
): RequestLine {
  return {
    what: [cause.kind, cause.type].join(" ").trim(),
    agent: id,
    status,
    seq,
    ms: msSince(cause.time, nowMs),
    trace: traceIdOf(cause.traceparent),
    attempt: cause.attempt ?? (attempts === undefined ? undefined : 1),
    attempts,
    nextInMs,
    why,
  };
}

const SEVERITIES: Record<TurnEnd["status"], Severity> = {
  done: "info",
  failed: "warn",
  dead: "error",
};

/** Made for each webhook that its gateway answered with 202: `defined` would be slower. */
function recordOf(
  delivery: string,
  id: AgentId,
  { cause }: Turn,
  { status, seq, http, error, attempts, nextInMs }: TurnEnd,
  nowMs: number,
): DeliveryRecord {
  const trace = traceIdOf(cause.traceparent);
  return {
    id: delivery,
    at: nowMs,
    status: status === "done" ? "answered" : status,
    agent: [id.class, id.name],
    seq,
    attempt: cause.attempt ?? 1,
    ...(cause.id !== undefined && { key: cause.id }),
    ...(cause.route !== undefined && { route: cause.route }),
    ...(cause.provider !== undefined && { provider: cause.provider }),
    ...(cause.type !== undefined && { type: cause.type }),
    ...(trace !== undefined && { trace }),
    ...(http !== undefined && { http }),
    ...(error !== undefined && { error }),
    ...(attempts !== undefined && { attempts }),
    ...(nextInMs !== undefined && { nextMs: nowMs + nextInMs }),
  };
}

/** A wall clock may jump backwards. */
const msSince = (fromMs: number | undefined, nowMs: number): number | undefined =>
  fromMs === undefined ? undefined : Math.max(0, nowMs - fromMs);
