/**
 * `tracing` of `cloudflare:workers`: spans that the module itself creates, by `@opentelemetry/api`.
 * In a turn they are children of the turn's span, which is the active one there (`TracedPorts`). In
 * a process that is not traced they are not recorded, and the callbacks run all the same.
 */
import {
  context,
  SpanStatusCode,
  trace,
  type AttributeValue,
  type Exception,
  type SpanContext,
  type Span as OtelSpan,
} from "@opentelemetry/api";
import { failureText } from "../../core/errors/failureText.ts";
import { asyncAmbient } from "../node/AsyncAmbient.ts";

const STATUS = {
  unset: SpanStatusCode.UNSET,
  ok: SpanStatusCode.OK,
  error: SpanStatusCode.ERROR,
} as const;

type Value = string | number | boolean | undefined;

/** A span as the platform has it: setters return the span itself. */
class Span {
  readonly #span: OtelSpan;

  constructor(span: OtelSpan) {
    this.#span = span;
  }

  /** For `withActiveSpan`. */
  static otelOf(span: Span): OtelSpan {
    return span.#span;
  }

  /** True if the span is recorded. */
  get isTraced(): boolean {
    return this.#span.isRecording();
  }
  spanContext(): SpanContext {
    return this.#span.spanContext();
  }
  /** A value of undefined sets nothing. */
  setAttribute(key: string, value: Value): this {
    if (value !== undefined) this.#span.setAttribute(key, value satisfies AttributeValue);
    return this;
  }
  setAttributes(attributes: Readonly<Record<string, Value>>): this {
    for (const [key, value] of Object.entries(attributes)) this.setAttribute(key, value);
    return this;
  }
  recordException(exception: Exception): void {
    this.#span.recordException(exception);
  }
  updateName(name: string): this {
    this.#span.updateName(name);
    return this;
  }
  setStatus({ code, message }: { code: keyof typeof STATUS; message?: string }): this {
    this.#span.setStatus({ code: STATUS[code], ...(message !== undefined && { message }) });
    return this;
  }
  end(): void {
    this.#span.end();
  }
}

/** Looked up for each span, so that a provider that is registered later is used. */
const tracer = () => trace.getTracer("agents");

/** Ends the span: at once, or when `result` settles if it is a promise. */
function endWith<A>(span: Span, result: A): A {
  if (result instanceof Promise)
    result.then(
      () => span.end(),
      (error: unknown) => fail(span, error),
    );
  else span.end();
  return result;
}

/** The error loses what is hidden of the turn's input, as on the turn's own span. */
function fail(span: Span, thrown: unknown): void {
  const turn = asyncAmbient.current();
  const error = turn === undefined ? thrown : turn.concealError(thrown);
  const message = failureText(error);
  span.recordException(error instanceof Error ? error : message);
  span.setStatus({ code: "error", message }).end();
}

export const tracing = {
  Span,
  /** A span that is not the active one. Its caller ends it. */
  startSpan: (name: string): Span => new Span(tracer().startSpan(name)),
  /** Runs `f` with a new span as the active one. Its caller ends it. */
  startActiveSpan: <T, A extends unknown[]>(
    name: string,
    f: (span: Span, ...args: A) => T,
    ...args: A
  ): T => tracer().startActiveSpan(name, (span) => f(new Span(span), ...args)),
  /** As `startActiveSpan`; the span ends when `f`, or the promise that it returns, has ended. */
  enterSpan: <T, A extends unknown[]>(
    name: string,
    f: (span: Span, ...args: A) => T,
    ...args: A
  ): T =>
    tracing.startActiveSpan(name, (span) => {
      try {
        return endWith(span, f(span, ...args));
      } catch (error) {
        fail(span, error);
        throw error;
      }
    }),
  getActiveSpan: (): Span | undefined => {
    const span = trace.getActiveSpan();
    return span && new Span(span);
  },
  withActiveSpan: <T, A extends unknown[]>(span: Span, f: (...args: A) => T, ...args: A): T =>
    context.with(trace.setSpan(context.active(), Span.otelOf(span)), () => f(...args)),
};
