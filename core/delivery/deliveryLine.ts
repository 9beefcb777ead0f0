/**
 * A delivery's record as a line of the log (`RequestLog`). Gateways write the line of a request,
 * hosts those of its runs. Pure.
 */
import { agentId } from "../../schemas/Address.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import { severityOf, type RequestLine, type Severity } from "../telemetry/RequestLog.ts";

export function severityOfDelivery({ status, http = 200 }: DeliveryRecord): Severity {
  if (status === "dead") return "error";
  if (status === "failed") return "warn";
  return severityOf(http);
}

export function requestLineOf(record: DeliveryRecord): RequestLine {
  const { id, agent, http, status, error, nextMs } = record;
  const isRefused = agent === undefined;
  return {
    what: `${record.method ?? "POST"} ${record.route ?? "?"}`,
    agent: agent && agentId(agent[0], agent[1]),
    status: status === "failed" || http === undefined ? status : http,
    ms: record.ms,
    seq: record.seq,
    duplicateOf: record.duplicateOf,
    attempt: record.attempt,
    attempts: record.attempts,
    nextInMs: nextMs === undefined ? undefined : Math.max(0, nextMs - record.at),
    why: error ?? record.why ?? WORDS[status],
    delivery: id,
    trace: record.trace,
    from: isRefused ? record.from : undefined,
  };
}

/** Where the HTTP status alone does not say what became of it. */
const WORDS: Partial<Record<DeliveryRecord["status"], string>> = {
  handshake: "handshake",
  stored: "stored",
  dead: "dead letter",
};
