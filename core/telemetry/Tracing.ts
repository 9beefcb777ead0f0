/**
 * The tracing port: spans of one trace, from a caller's request through the gateway and the host to
 * what the turn causes. Absent in a process that is not traced, which then pays a comparison.
 *
 * A trace is passed on as the text of a W3C `traceparent`: in headers of requests, in calls, in
 * inputs (`InboxHead`) and in events (`Cause`). `services/otel` implements the port on
 * `@opentelemetry/api`, and decorates other ports with it.
 */
import * as Context from "effect/Context";

type SpanKind = "server" | "client" | "producer" | "consumer" | "internal";
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface Span {
  /** What the span's children are given. */
  readonly traceparent: string;
  readonly set: (attributes: SpanAttributes) => void;
  /** Ends the span, with its error, if any. Called once. */
  readonly end: (error?: unknown) => void;
  /** Runs `f` with the span as OpenTelemetry's active one, for instrumented code. */
  readonly run: <A>(f: () => A) => A;
}

interface SpanOptions {
  readonly kind: SpanKind;
  /** A `traceparent`. Absent, or one that can't be read: the span begins a trace. */
  readonly parent?: string | undefined;
  readonly attributes?: SpanAttributes;
}

export interface TracingShape {
  readonly start: (name: string, options: SpanOptions) => Span;
}

export class Tracing extends Context.Service<Tracing, TracingShape>()(
  "agents/core/telemetry/Tracing",
) {}

/** The trace id of a `traceparent`, 32 hex digits; undefined where it has none. */
export const traceIdOf = (traceparent: string | undefined): string | undefined =>
  traceparent === undefined ? undefined : /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent)?.[1];
