/** `PendingWebhook` against a host whose answers can't be sent on, or are lost. */
import { expect, test } from "vitest";
import type { HttpResponse } from "../../core/http/HttpServer.ts";
import { topLevelId } from "../../schemas/AgentPath.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";
import { PendingWebhook } from "../../services/gateway/PendingWebhook.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { collectingLog } from "../kit/system.ts";

const HEAD: InboxHead = { key: "k", kind: "webhook", time: 0 };

function answeredWith(reply: object): Promise<{ response: HttpResponse; logged: number }> {
  const log = collectingLog();
  return new Promise((resolve) => {
    const services = {
      log,
      calls: { fits: () => true, give: async () => ({ reply, body: new Uint8Array(0) }) },
      inbox: { publish: () => Promise.reject(new Error("not to be stored")) },
      blobs: {},
    };
    new PendingWebhook({
      services: services as never,
      timeouts: new TimeoutQueue(new VirtualTime()),
      signal: new AbortController().signal,
      deadlineMs: 5_000,
      id: topLevelId("A", "a"),
      envelope: { head: HEAD, body: new Uint8Array(0) },
      byAgent: true,
      storeFirst: false,
      respond: (response) =>
        resolve({ response, logged: log.lines.filter(({ level }) => level === "error").length }),
    }).start();
  });
}

test("a host's answer is passed on", async () => {
  const { response, logged } = await answeredWith({ kind: "done", status: 200, headers: [] });
  expect([response.status, logged]).toEqual([200, 0]);
});

test.each([
  ["a status of 42", { status: 42, headers: [] }],
  ["a status of 101", { status: 101, headers: [] }],
  ["no status", { headers: [] }],
  ["a status that is text", { status: "200", headers: [] }],
  ["no headers", { status: 200 }],
  ["a header that is none", { status: 200, headers: [5] }],
  ["a header that breaks its line", { status: 200, headers: [["x", "a\r\nb: c"]] }],
])("an answer with %s is a 502", async (_, answer) => {
  const { response, logged } = await answeredWith({ kind: "done", ...answer });
  expect([response.status, logged]).toEqual([502, 1]);
});

test("an inbox that throws is a 503", async () => {
  const { response } = await answeredWith({ kind: "notHere" });
  expect(response.status).toBe(503);
});

/** A webhook whose host has run it, and whose stored copy is answered as a repetition. */
async function answeredTwice(ownAfterMs: number): Promise<{ body: string; afterMs: number }> {
  const time = new VirtualTime();
  const own = { kind: "done", status: 200, headers: [] };
  const give = () =>
    new Promise((resolve) =>
      time.after(ownAfterMs, () => resolve({ reply: own, body: Buffer.from("its own") })),
    );
  let sent: { body: string; afterMs: number } | undefined;
  const webhook = new PendingWebhook({
    services: {
      log: collectingLog(),
      calls: { fits: () => true, give },
      inbox: { publish: async () => ({ _tag: "Stored" }) },
      blobs: {},
    } as never,
    timeouts: new TimeoutQueue(time),
    signal: new AbortController().signal,
    deadlineMs: 30_000,
    id: topLevelId("A", "a"),
    envelope: { head: HEAD, body: new Uint8Array(0) },
    byAgent: true,
    storeFirst: false,
    respond: ({ body }) => {
      expect(sent).toBeUndefined();
      sent = { body: Buffer.from(body as Uint8Array).toString(), afterMs: time.monotonicMs() };
    },
  });
  webhook.start();
  await time.advance(2_000);
  webhook.onAnswer({ status: 200, headers: [], duplicateOf: 7 }, Buffer.from("repeated"));
  await time.advance(60_000);
  return sent!;
}

test("the host's own answer takes precedence over that of a repetition", async () => {
  expect(await answeredTwice(2_300)).toEqual({ body: "its own", afterMs: 2_300 });
});

test("a repetition's answer is sent if the host's own one is lost, long before the deadline", async () => {
  const { body, afterMs } = await answeredTwice(1e9);
  expect(body).toBe("repeated");
  expect(afterMs).toBeLessThan(5_000);
});
