/** `useAgentToolEvents`, ours and the reference's: the same frames show the same runs. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createElement, StrictMode } from "react";
import type { Root } from "react-dom/client";
import fc from "../kit/property.ts";
import { pollUntil } from "../kit/poll.ts";
import { installWindow } from "./page.ts";

installWindow();
const { useAgentToolEvents } = await import("../../services/react/index.ts");
const reference = await import("reference-agents/react");
type Hook = typeof useAgentToolEvents;
type Shown = ReturnType<Hook>;

const HOOKS: ReadonlyArray<readonly [name: string, hook: Hook]> = [
  ["our hook", useAgentToolEvents],
  ["the reference's hook", reference.useAgentToolEvents as unknown as Hook],
];

/** A component of the hook, and the socket that it listens to. */
class Mounted {
  readonly socket = new EventTarget();
  renders: Shown[] = [];
  #root: Root | undefined;

  async mount(hook: Hook): Promise<this> {
    const { createRoot } = await import("react-dom/client");
    const Probe = () => {
      this.renders.push(hook({ agent: this.socket as Parameters<Hook>[0]["agent"] }));
      return null;
    };
    this.#root = createRoot(document.createElement("div"));
    this.#root.render(createElement(StrictMode, null, createElement(Probe)));
    await pollUntil("it rendered", () => this.renders.length > 0, { intervalMs: 1 });
    // Effects run after the render, and twice in strict mode.
    await pollUntil("it listens", () => (this.send("r0", 0, STARTED), this.last.runsById["r0"] !== undefined), { intervalMs: 1 }); // prettier-ignore
    return this;
  }
  get last(): Shown {
    return this.renders.at(-1)!;
  }
  raw(data: unknown): void {
    this.socket.dispatchEvent(Object.assign(new Event("message"), { data }));
  }
  send(runId: string, sequence: number, event: object, more: object = {}): void {
    this.raw(
      JSON.stringify({ type: "agent-tool-event", sequence, event: { ...event, runId }, ...more }),
    );
  }
  /** Resolves when all that was sent so far is rendered. */
  async shown(): Promise<Shown> {
    const run = `end${this.renders.length}`;
    this.send(run, 0, STARTED);
    await pollUntil("the last frame is shown", () => run in this.last.runsById, { intervalMs: 1 });
    return this.last;
  }
  unmount(): void {
    this.#root?.unmount();
  }
}

const STARTED = { kind: "started", agentType: "Researcher", order: 0 };
const chunk = (body: unknown) => ({ kind: "chunk", body: JSON.stringify(body) });
const delta = (text: string) => chunk({ type: "text-delta", id: "t", delta: text });

const mounted: Mounted[] = [];
const mount = async (hook: Hook): Promise<Mounted> => {
  const page = new Mounted();
  mounted.push(page);
  return page.mount(hook);
};
afterEach(() => {
  for (const page of mounted.splice(0)) page.unmount();
});

describe.each(HOOKS)("%s", (_name, hook) => {
  let page: Mounted;
  beforeEach(async () => {
    page = await mount(hook);
  });

  it("shows a run's text once, even if its frames are repeated", async () => {
    page.send("r", 0, STARTED);
    page.send("r", 1, chunk({ type: "text-start", id: "t" }));
    page.send("r", 2, delta("Hello"));
    page.send("r", 2, delta("Hello"), { replay: true });
    page.send("r", 3, delta(" world"));
    page.send("r", 4, { kind: "finished", summary: "greeted" });
    page.send("r", 5, STARTED, { replay: true });
    expect((await page.shown()).runsById["r"]).toMatchObject({
      status: "completed",
      summary: "greeted",
      parts: [{ type: "text", text: "Hello world", state: "streaming" }],
      subAgent: { agent: "Researcher", name: "r" },
    });
  });

  it("groups runs in order by the tool call that started them", async () => {
    const call = { parentToolCallId: "call" };
    page.send("b", 0, { ...STARTED, order: 1 }, call);
    page.send("a", 0, STARTED, call);
    page.send("loose", 0, STARTED);
    const { getRunsForToolCall, unboundRuns } = await page.shown();
    expect(getRunsForToolCall("call").map(({ runId }) => runId)).toEqual(["a", "b"]);
    expect(getRunsForToolCall("another")).toEqual([]);
    expect(unboundRuns.map(({ runId }) => runId)).toContain("loose");
  });

  it("shows how a run failed", async () => {
    for (const run of ["error", "aborted", "interrupted"]) page.send(run, 0, STARTED);
    page.send("error", 1, { kind: "error", error: "no model" });
    page.send("aborted", 1, { kind: "aborted", reason: "cancelled" });
    page.send("interrupted", 1, { kind: "interrupted", error: "lost", reason: "no-progress", childStillRunning: true }); // prettier-ignore
    const { runsById } = await page.shown();
    expect(runsById["error"]).toMatchObject({ status: "error", error: "no model" });
    expect(runsById["aborted"]).toMatchObject({ status: "aborted", error: "cancelled" });
    expect(runsById["interrupted"]).toMatchObject({
      status: "interrupted",
      error: "lost",
      reason: "no-progress",
      childStillRunning: true,
    });
  });

  it("shows progress, and milestones once; a late milestone takes nothing back", async () => {
    const milestone = (name: string, sequence: number, at: number) =>
      chunk({ type: "data-agent-milestone", data: { name, sequence, at, fraction: at / 10 } });
    page.send("r", 0, STARTED);
    page.send("r", 1, milestone("second", 2, 5));
    page.send("r", 2, milestone("first", 1, 1));
    page.send("r", 3, milestone("second", 2, 5));
    const run = (await page.shown()).runsById["r"]!;
    expect(run.milestones!.map(({ name }) => name)).toEqual(["first", "second"]);
    expect(run.progress).toEqual({ milestone: "second", at: 5, fraction: 0.5 });
    page.send("r", 4, chunk({ type: "data-agent-progress", transient: true, data: { message: "almost", fraction: "x" } })); // prettier-ignore
    expect((await page.shown()).runsById["r"]!.progress).toEqual({
      message: "almost",
      at: expect.any(Number) as number,
    });
  });

  it("clears all runs on reset, and shows what the agent sends again", async () => {
    page.send("r", 0, STARTED);
    page.send("r", 1, delta("Hi"));
    (await page.shown()).resetLocalState();
    await pollUntil("it is empty", () => !("r" in page.last.runsById), { intervalMs: 1 });
    page.send("r", 0, STARTED);
    page.send("r", 1, delta("Hi"));
    expect((await page.shown()).runsById["r"]!.parts).toMatchObject([{ text: "Hi" }]);
  });

  it("ignores invalid frames, and frames of a run whose start it has not seen", async () => {
    for (const data of [1, "{ no JSON", '{"type":"cf_agent_state","state":{}}']) page.raw(data);
    page.send("unknown", 3, delta("lost"));
    page.send("r", 0, STARTED);
    page.send("r", 1, { kind: "chunk", body: "{ no JSON" });
    page.send("r", 2, chunk({ type: "no-such-chunk" }));
    const { runsById } = await page.shown();
    expect(runsById["unknown"]).toBeUndefined();
    expect(runsById["r"]!.parts).toEqual([]);
  });
});

it("the hook ignores a null message, and a frame without an event", async () => {
  const page = await mount(useAgentToolEvents);
  page.raw("null");
  page.raw('{"type":"agent-tool-event","sequence":1}');
  page.raw('{"type":"agent-tool-event","sequence":1,"event":{"kind":"chunk","runId":7}}');
  page.send("r", 0, STARTED);
  page.send("r", 1, { kind: "chunk", body: "null" });
  expect((await page.shown()).runsById["r"]!.parts).toEqual([]);
});

/** Chunks of each kind, for a few tool calls, texts and data. */
const chunks = fc.oneof(
  fc.record({
    type: fc.constantFrom("text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta", "reasoning-end"), // prettier-ignore
    delta: fc.constantFrom("a", "b "),
    providerMetadata: fc.constantFrom(undefined, { p: { a: 1 } }, { q: 2 }),
  }),
  fc.record({
    type: fc.constantFrom("tool-input-start", "tool-input-delta", "tool-input-available", "tool-input-error", "tool-approval-request", "tool-output-denied", "tool-output-available", "tool-output-error"), // prettier-ignore
    toolCallId: fc.constantFrom("c1", "c2"),
    toolName: fc.constant("search"),
    input: fc.constantFrom({ q: 1 }, '{"q":2}', "", "[1]", undefined),
    output: fc.constantFrom("found", [1]),
    errorText: fc.constant("failed"),
    approvalId: fc.constant("a1"),
    approvalDescriptor: fc.constantFrom(undefined, { risk: 1 }),
    preliminary: fc.constantFrom(undefined, true, false),
    providerExecuted: fc.constantFrom(undefined, true),
    providerMetadata: fc.constantFrom(undefined, { p: 1 }),
    title: fc.constantFrom(undefined, "Search"),
  }),
  fc.record({
    type: fc.constantFrom("file", "source-url", "source-document", "step-start", "start-step", "data-x", "data-y", "finish", "text"), // prettier-ignore
    id: fc.constantFrom(undefined, "d1", "d2"),
    data: fc.constantFrom(1, { n: 2 }),
    transient: fc.constantFrom(undefined, true),
    url: fc.constant("https://example.com/"),
    sourceId: fc.constant("s"),
    title: fc.constantFrom(undefined, "T"),
    mediaType: fc.constant("text/plain"),
    filename: fc.constantFrom(undefined, "f.txt"),
  }),
);

it("the hook makes the same parts from the same chunks as the reference's hook", async () => {
  const [ours, theirs] = [await mount(HOOKS[0]![1]), await mount(HOOKS[1]![1])];
  const samples = fc.sample(fc.array(chunks, { minLength: 1, maxLength: 30 }), {
    numRuns: 100,
    seed: 1,
  });
  const partsOf = async (page: Mounted): Promise<unknown> => {
    for (const [n, sample] of samples.entries()) {
      page.send(`s${n}`, 0, STARTED);
      for (const [k, each] of sample.entries()) page.send(`s${n}`, k + 1, chunk(each));
    }
    const { runsById } = await page.shown();
    return JSON.parse(JSON.stringify(samples.map((_, n) => runsById[`s${n}`]!.parts)));
  };
  const [mine, published] = [await partsOf(ours), await partsOf(theirs)];
  expect(JSON.stringify(mine)).toContain("approval-requested");
  expect(mine).toEqual(published);
});
