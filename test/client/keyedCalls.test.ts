/** Calls with a key: our client sends each again until it is answered. */
import { expect, it, vi } from "vitest";
import { AgentClient, agentFetch } from "../../services/client/index.ts";
import { PendingCalls } from "../../services/client/PendingCalls.ts";
import { ClientPool } from "./clients.ts";
import { useFakeServer } from "./FakeServer.ts";

const pool = new ClientPool({ AgentClient, agentFetch });
const server = useFakeServer(() => {
  vi.useRealTimers();
  pool.close();
});

const REQUEST = { method: "pay", stream: undefined, timeoutMs: undefined, frame: () => "frame" };
const KEYED = { ...REQUEST, key: "k" };
const callsBy = (send: (frame: string) => void) =>
  new PendingCalls({ readyState: 1, OPEN: 1, send, drainQueuedMessages: () => [] });

it("a keyed call survives a lost connection: the next one begins with the same frame", async () => {
  const client = pool.open({ host: server.host });
  const peer = await server.peer();
  const paid = client.call("pay", [5], { key: "order 1" });
  const { id } = await peer.call();
  peer.drop();
  const next = await server.peer(2);
  expect(await next.call()).toEqual({ type: "rpc", id, method: "pay", args: [5], key: "order 1" });
  next.reply(id, { success: true, result: "paid", done: true });
  expect(await paid).toBe("paid");
});

it("a final close rejects a keyed call", async () => {
  const client = pool.open({ host: server.host });
  const peer = await server.peer();
  const paid = client.call("pay", [5], { key: "order 1" });
  await peer.call();
  client.close();
  await expect(paid).rejects.toThrow("Connection closed");
});

it("a keyed call is repeated until it is answered, and a second answer is ignored", async () => {
  vi.useFakeTimers();
  const send = vi.fn();
  const calls = callsBy(send);
  const paid = calls.start("1", KEYED, () => "transmitted");
  vi.advanceTimersByTime(11_000);
  expect(send.mock.calls).toEqual([["frame"], ["frame"]]);
  expect(calls.settle("1", { _tag: "Result", result: "paid" })).toBe(true);
  expect(await paid).toBe("paid");
  vi.advanceTimersByTime(60_000);
  expect(send.mock.calls).toEqual([["frame"], ["frame"]]);
  // Sent three times: a third answer is the last one that may come.
  expect(calls.settle("1", { _tag: "Result", result: "paid" })).toBe(true);
  expect(calls.settle("1", { _tag: "Result", result: "paid" })).toBe(true);
  expect(calls.settle("1", { _tag: "Result", result: "paid" })).toBe(false);
  expect(calls.settle("2", { _tag: "Result", result: "paid" })).toBe(false);
});

it("a keyed call in the send buffer is not sent twice", () => {
  vi.useFakeTimers();
  const send = vi.fn();
  const calls = callsBy(send);
  calls.start("1", KEYED, () => "buffered").catch(() => undefined);
  vi.advanceTimersByTime(11_000);
  calls.askAgain();
  expect(send).not.toHaveBeenCalled();
});

it("an aborted call's id is forgotten with its reply", async () => {
  const send = vi.fn();
  const calls = callsBy(send);
  const abort = new AbortController();
  const call = { ...REQUEST, cancel: "cancel", signal: abort.signal };
  const slow = calls.start("1", call, () => "transmitted");
  abort.abort(new Error("not needed"));
  await expect(slow).rejects.toThrow("not needed");
  expect(calls.settle("1", { _tag: "Chunk", result: 1 })).toBe(true);
  expect(calls.settle("1", { _tag: "Result", result: 1 })).toBe(true);
  expect(calls.settle("1", { _tag: "Result", result: 1 })).toBe(false);
});
