/**
 * One line a request: the request, its target, its outcome and its duration.
 * Gateways write a line for each webhook, HTTP request and socket; hosts write one for each run
 * that no request waits for (jobs, stored inputs) and for each run that failed.
 *
 * 1. A line that is not written is not built: callers pass a function that returns it.
 * 2. At most `LINES_MAX` are written in `WINDOW_MS`. The last line of such a window says how many
 *    were left out, so a flood is seen and costs nothing.
 */
import { defined } from "../collections/defined.ts";
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import type { TimeShape } from "../time/Time.ts";
import { TEXT, type LogShape } from "./Log.ts";
import { oneLine } from "./printable.ts";

/** `failed`: only refused and failed requests. */
export const REQUEST_LINES = ["all", "failed", "none"] as const;
export type RequestLines = (typeof REQUEST_LINES)[number];

export interface RequestLine {
  /** For example `POST /webhooks/github`, `schedule remind`. Never with a query. */
  readonly what: string;
  readonly agent?: AgentId | undefined;
  /** The HTTP status, or a word in its place. */
  readonly status: number | string;
  readonly ms?: number | undefined;
  /** Journal sequence of the event that it led to. */
  readonly seq?: number | undefined;
  readonly duplicateOf?: number | undefined;
  readonly attempt?: number | undefined;
  readonly attempts?: number | undefined;
  /** Milliseconds until the next attempt. */
  readonly nextInMs?: number | undefined;
  /** Why it was refused or failed. */
  readonly why?: string | undefined;
  /** The URL that a refused signature was checked for, without its query. */
  readonly url?: string | undefined;
  readonly delivery?: string | undefined;
  /** Trace id. */
  readonly trace?: string | undefined;
  readonly from?: string | undefined;
}

export type Severity = "info" | "warn" | "error";

/** Rule 2. More than people read, and fewer than a log notices. */
const LINES_MAX = 500;
const WINDOW_MS = 1_000;

export class RequestLog {
  private windowEndsMs = 0;
  private written = 0;
  private omitted = 0;

  constructor(
    private readonly log: LogShape,
    private readonly time: Pick<TimeShape, "monotonicMs" | "after">,
    private readonly lines: RequestLines = "failed",
  ) {}

  /** For callers that would have to measure something first. */
  wants(severity: Severity): boolean {
    return this.lines === "all" || (this.lines === "failed" && severity !== "info");
  }

  write(severity: Severity, toLine: () => RequestLine): void {
    if (!this.wants(severity) || !this.isWithinBound()) return;
    const line = toLine();
    const { what, agent, ms, ...rest } = line;
    this.log[severity](what, {
      ...(agent !== undefined && { class: agent.class, name: agent.name }),
      ...(ms !== undefined && { ms: Number(ms.toFixed(1)) }),
      ...defined(rest),
      [TEXT]: () => textOf(line),
    });
  }

  /** Rule 2. */
  private isWithinBound(): boolean {
    const nowMs = this.time.monotonicMs();
    if (nowMs >= this.windowEndsMs) {
      this.windowEndsMs = nowMs + WINDOW_MS;
      this.written = 0;
    }
    if (this.written++ < LINES_MAX) return true;
    if (this.omitted++ === 0)
      this.time.after(this.windowEndsMs - nowMs, () => {
        this.log.warn("more requests arrived than are logged", { omitted: this.omitted });
        this.omitted = 0;
      });
    return false;
  }
}

/** A line's severity by the HTTP status of the answer. */
export const severityOf = (status: number): Severity =>
  status >= 500 ? "error" : status >= 400 ? "warn" : "info";

/** For people: the columns of a request, then its other fields. */
function textOf(line: RequestLine): string {
  const { agent, attempt, attempts, nextInMs } = line;
  const run = attempt === undefined ? "" : `attempt ${attempt}`;
  return oneLine(
    [
      agent === undefined ? line.what : `${line.what} → ${addressKey(agent)}`,
      String(line.status),
      ...(line.ms === undefined ? [] : [duration(line.ms)]),
      ...(line.seq === undefined ? [] : [`seq ${line.seq}`]),
      ...(line.duplicateOf === undefined ? [] : [`duplicate of seq ${line.duplicateOf}`]),
      ...(run === "" ? [] : [attempts === undefined ? run : `${run} of ${attempts}`]),
      ...(line.why === undefined ? [] : [line.why]),
      ...(line.url === undefined ? [] : [`signed URL ${line.url}`]),
      ...(nextInMs === undefined ? [] : [`next try in ${duration(nextInMs)}`]),
      ...(line.delivery === undefined ? [] : [`delivery ${line.delivery}`]),
      ...(line.trace === undefined ? [] : [`trace ${line.trace}`]),
      ...(line.from === undefined ? [] : [`from ${line.from}`]),
    ].join("  "),
  );
}

/** `0.4 ms`, `12 ms`, `1.2 s`. */
export const duration = (ms: number): string =>
  ms >= 1_000
    ? `${(ms / 1_000).toFixed(1)} s`
    : `${ms < 1 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
