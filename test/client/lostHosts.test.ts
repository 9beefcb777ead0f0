/** Calls whose host is lost while their connection stays: our client asks which are lost. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PendingCalls } from "../../services/client/PendingCalls.ts";

const LOST = "The call was lost with its agent's host; the method may have run";
const question = (n: number, ...args: string[]) => [JSON.stringify({ type: "rpc", id: `lost ${n}`, method: "rpc:lost", args })]; // prettier-ignore
const request = { method: "work", stream: undefined, timeoutMs: undefined };
const result = (value: unknown) => ({ _tag: "Result", result: value }) as const;

const send = vi.fn();
const calls = (): PendingCalls =>
  new PendingCalls({ readyState: 1, OPEN: 1, send, drainQueuedMessages: () => [] });
beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  send.mockClear();
});

it("asks about all calls every 5 s; those that the agent will not answer reject", async () => {
  const pending = calls();
  const onError = vi.fn();
  const work = pending.start("1", { ...request, stream: { onError } }, () => "transmitted");
  const rejected = expect(work).rejects.toThrow(LOST);
  const other = pending.start("2", request, () => "transmitted");
  vi.advanceTimersByTime(5_000);
  expect(pending.settle("lost 1", result([]))).toBe(true);
  vi.advanceTimersByTime(5_000);
  expect(pending.settle("lost 2", result(["1"]))).toBe(true);
  await rejected;
  expect(onError.mock.calls).toEqual([[LOST]]);
  vi.advanceTimersByTime(5_000);
  pending.settle("2", result("done"));
  expect(await other).toBe("done");
  vi.advanceTimersByTime(60_000);
  const asked = [question(1, "1", "2"), question(2, "1", "2"), question(3, "2")];
  expect(send.mock.calls).toEqual(asked);
  // Its host only stood still.
  expect(pending.settle("1", result("late"))).toBe(true);
});

it("an answer that was on its way counts, and what was asked about it does not", async () => {
  const pending = calls();
  const work = pending.start("1", request, () => "transmitted");
  vi.advanceTimersByTime(5_000);
  pending.settle("1", result("done"));
  expect(await work).toBe("done");
  expect(pending.settle("lost 1", result(["1"]))).toBe(true);
});

it.each([
  ["an error", { _tag: "Failure", error: "Method rpc:lost does not exist" } as const],
  ["no list", result({ ok: true })],
  ["a part of a stream", { _tag: "Chunk", result: ["1"] } as const],
])("a server that answers with %s is asked once a connection", async (_, answer) => {
  const pending = calls();
  const first = pending.start("1", request, () => "transmitted");
  vi.advanceTimersByTime(5_000);
  expect(pending.settle("lost 1", answer)).toBe(true);
  vi.advanceTimersByTime(60_000);
  expect(send).toHaveBeenCalledTimes(1);
  pending.rejectTransmitted("the connection was lost");
  await expect(first).rejects.toThrow("the connection was lost");
  void pending.start("2", request, () => "transmitted");
  vi.advanceTimersByTime(5_000);
  expect(send).toHaveBeenCalledTimes(2);
});

it("nothing is asked about a call in the send buffer, one with a key, and a durable stream", () => {
  const pending = calls();
  void pending.start("1", request, () => "buffered");
  void pending.start("2", { ...request, key: "k", frame: () => "frame" }, () => "transmitted");
  void pending.start("3", request, () => "transmitted");
  pending.settle("3", { _tag: "Chunk", result: 1 }, { key: "answer", seq: "1.1" });
  vi.advanceTimersByTime(5_000);
  expect(send.mock.calls).toEqual([["frame"]]);
});
