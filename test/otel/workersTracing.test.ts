/** `tracing` of `cloudflare:workers`, with a provider that records spans and without one. */
import { context, trace } from "@opentelemetry/api";
import { node, tracing as sdk } from "@opentelemetry/sdk-node";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { tracing } from "cloudflare:workers";
import { Turn } from "../../core/turn/Turn.ts";
import { asyncAmbient } from "../../services/node/AsyncAmbient.ts";

describe("in a process that is not traced", () => {
  test("the callbacks run, and no span is recorded", async () => {
    const seen = tracing.startActiveSpan("a", (span, by: number) => [span.isTraced, by], 2);
    expect(seen).toEqual([false, 2]);
    expect(await tracing.enterSpan("b", async (span) => span.setAttribute("k", 1).isTraced)).toBe(false); // prettier-ignore
    expect(tracing.getActiveSpan()).toBeUndefined();
  });
});

describe("in a process that is traced", () => {
  const spans = new sdk.InMemorySpanExporter();
  beforeEach(() => {
    const spanProcessors = [new sdk.SimpleSpanProcessor(spans)];
    new node.NodeTracerProvider({ spanProcessors }).register();
  });
  afterEach(() => {
    trace.disable();
    context.disable();
    spans.reset();
  });
  const ended = () =>
    spans.getFinishedSpans().map(({ name, status, attributes }) => ({ name, status, attributes }));

  test("enterSpan ends with its callback's result, and marks what it throws", async () => {
    let release = (): void => {};
    const waits = new Promise<void>((resolve) => (release = resolve));
    const going = tracing.enterSpan("long", async (span) => {
      await waits;
      span.setAttributes({ a: "x", none: undefined });
    });
    expect(ended()).toEqual([]);
    release();
    await going;
    expect(tracing.enterSpan("short", () => 1)).toBe(1);
    const broken = (): never => {
      throw new Error("no");
    };
    expect(() => tracing.enterSpan("sync", broken)).toThrow("no");
    await expect(tracing.enterSpan("async", async () => broken())).rejects.toThrow("no");
    expect(ended()).toEqual([
      { name: "long", status: { code: 0 }, attributes: { a: "x" } },
      { name: "short", status: { code: 0 }, attributes: {} },
      { name: "sync", status: { code: 2, message: "Error: no" }, attributes: {} },
      { name: "async", status: { code: 2, message: "Error: no" }, attributes: {} },
    ]);
  });

  test("an error that a span is marked with does not have what is hidden of the turn's input", () => {
    const turn = new Turn({ cause: { kind: "webhook" }, owner: {}, conceals: ["hidden"] });
    const f = (): never => {
      throw new Error("of hidden");
    };
    expect(() => asyncAmbient.run(turn, () => tracing.enterSpan("sync", f))).toThrow("of hidden");
    expect(ended()).toMatchObject([{ status: { message: "Error: of REDACTED" } }]);
    expect(JSON.stringify(spans.getFinishedSpans()[0]!.events)).not.toContain("of hidden");
  });

  test("nested spans are children of the active one, and detached spans end explicitly", () => {
    tracing.startActiveSpan("outer", (outer) => {
      expect(tracing.getActiveSpan()?.spanContext()).toEqual(outer.spanContext());
      const inner = tracing.startSpan("inner");
      tracing.withActiveSpan(inner, () => tracing.startSpan("innermost").end());
      inner.updateName("renamed").setStatus({ code: "ok" }).end();
      expect(outer.isTraced).toBe(true);
      outer.end();
    });
    const finished = spans.getFinishedSpans();
    const parents = finished.map(({ name, parentSpanContext }) => [
      name,
      finished.find((each) => each.spanContext().spanId === parentSpanContext?.spanId)?.name,
    ]);
    expect(parents).toEqual([
      ["innermost", "renamed"],
      ["renamed", "outer"],
      ["outer", undefined],
    ]);
  });
});
