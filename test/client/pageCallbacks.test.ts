/** A callback of the page that throws is reported, and holds up nothing else. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { AgentClient } from "../../services/client/AgentClient.ts";
import { DurableRead } from "../../services/client/DurableRead.ts";
import { PendingCalls, type CallRequest } from "../../services/client/PendingCalls.ts";
import { pollUntil } from "../kit/poll.ts";
import { AT_ONCE } from "./clients.ts";
import { FakeServer } from "./FakeServer.ts";

const EVENT = "uncaughtException";
const reported: unknown[] = [];
let others: ReadonlyArray<NodeJS.UncaughtExceptionListener> = [];

beforeEach(() => {
  // The test runner's own listener would fail the run.
  others = process.listeners(EVENT);
  process.removeAllListeners(EVENT).on(EVENT, (error) => void reported.push(error.message));
});
afterEach(() => {
  process.removeAllListeners(EVENT);
  for (const each of others) process.on(EVENT, each);
  reported.length = 0;
});

const broken = (): never => {
  throw new Error("of the page");
};
const socket = { readyState: 1, OPEN: 1, send: () => true, drainQueuedMessages: () => [] };
const start = (calls: PendingCalls, id: string, more: Partial<CallRequest>): Promise<unknown> =>
  calls.start(id, { method: id, stream: undefined, timeoutMs: undefined, frame: () => id, ...more }, () => "transmitted"); // prettier-ignore
const isReported = (times: number) =>
  pollUntil("it is reported", () => reported.length === times || { done: false, saw: reported });

test("onError: the other calls of a lost connection reject, too", async () => {
  const calls = new PendingCalls(socket);
  const first = start(calls, "first", { stream: { onError: broken } });
  const second = start(calls, "second", {});
  calls.rejectTransmitted("Connection closed");
  await expect(first).rejects.toThrow("Connection closed");
  await expect(second).rejects.toThrow("Connection closed");
  await isReported(1);
});

test("onChunk: the other chunks of the frame arrive, and its end", async () => {
  const calls = new PendingCalls(socket);
  const got: unknown[] = [];
  const onChunk = (chunk: unknown): void => {
    got.push(chunk);
    if (chunk === "two") broken();
  };
  const read = start(calls, "read", { read: new DurableRead("key"), stream: { onChunk, onRestart: broken } }); // prettier-ignore
  const end = { _tag: "Result", result: "end" } as const;
  const chunks = ["one", "two", "three"];
  calls.take("read", { seq: "s.3", chunks, restart: true, end, resume: false } as never);
  expect(await read).toBe("end");
  expect(got).toEqual(chunks);
});

test("onError, onMissed and onIdentityChange: the client does what follows them", async () => {
  const server = new FakeServer();
  await server.start();
  const heard: unknown[] = [];
  const client = new AgentClient({
    agent: "RoomAgent",
    host: server.host,
    WebSocket,
    ...AT_ONCE,
    onMissed: broken,
    onIdentityChange: broken,
    onIdentity: (name) => void heard.push(name),
  });
  try {
    client.addEventListener("message", ({ data }) => void heard.push(data));
    const peer = await server.peer();
    peer.identity("a");
    await client.ready;
    peer.send({ type: "cf_agent_kept", seq: "0.1", missed: true, message: "kept" });
    await pollUntil("the message", () => heard.includes("kept"));
    client.call("lost", [], { stream: { onError: broken } }).catch(() => undefined);
    await peer.call();
    peer.drop();
    await pollUntil("it is no longer identified", () => !client.identified);
    (await server.peer(2)).identity("b");
    await pollUntil("the identity", () => heard.includes("b"));
  } finally {
    client.close();
    await server.stop();
  }
});
