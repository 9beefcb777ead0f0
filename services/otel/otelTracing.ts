/**
 * The tracing port on `@opentelemetry/api`: the provider that is registered in the process receives
 * the spans. `startOtel` registers the SDK's provider if `OTEL_*` variables ask for it.
 */
import {
  context,
  isSpanContextValid,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type SpanContext,
} from "@opentelemetry/api";
import type { Span, TracingShape } from "../../core/telemetry/Tracing.ts";
import { messageOf } from "../../core/errors/thrown.ts";

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
} as const;

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

export function otelTracing(): TracingShape {
  const tracer = trace.getTracer("agents");
  return {
    start: (name, { kind, parent, attributes }) => {
      const above = contextOf(parent);
      const span = tracer.startSpan(
        name,
        { kind: KINDS[kind], ...(attributes && { attributes }) },
        above,
      );
      const own = trace.setSpan(above, span);
      return {
        traceparent: traceparentOf(span.spanContext()),
        set: (more) => void span.setAttributes(more),
        end: (error) => {
          if (error !== undefined) {
            if (error instanceof Error) span.recordException(error);
            const message = messageOf(error);
            span.setStatus({ code: SpanStatusCode.ERROR, message });
          }
          span.end();
        },
        run: (f) => context.with(own, f),
      } satisfies Span;
    },
  };
}

/** The context of a parent in another process, or without one. No span here is the parent. */
function contextOf(parent: string | undefined): Context {
  const root = trace.deleteSpan(context.active());
  const [, traceId, spanId, flags] = TRACEPARENT.exec(parent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined) return root;
  const spanContext = { traceId, spanId, traceFlags: Number.parseInt(flags!, 16), isRemote: true };
  return isSpanContextValid(spanContext) ? trace.setSpanContext(root, spanContext) : root;
}

const traceparentOf = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
