/** A batch becomes inputs, or it is not answered: order, failures, events that name no agent. */
import { describe, expect, test } from "vitest";
import type { PublishResult } from "../../core/inbox/Inbox.ts";
import type { BatchItem, WebhookRoute } from "../../core/webhook/WebhookRoute.ts";
import { decodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { RateLimit } from "../../services/gateway/RateLimit.ts";
import { storeBatch } from "../../services/gateway/storeBatch.ts";
import { body, sendgrid, webhook } from "../../services/webhooks/index.ts";
import { collectingLog } from "../kit/system.ts";
import { env } from "./everyProvider.ts";
import { NOW_MS, requestOf } from "./requests.ts";

const route = webhook("/w", {
  agent: "Recipient",
  verify: sendgrid({ publicKey: { value: env["P256"]! } }),
  entity: body("email"),
});
const event = (email: string, n: number): BatchItem => ({
  body: Buffer.from(JSON.stringify({ email, n })),
  dedupId: `${email}-${n}`,
  eventType: "open",
});

/** Stores what `answer` lets be stored, and counts how many are at it at once. */
function store(
  items: ReadonlyArray<BatchItem>,
  answer: (n: number) => PublishResult["_tag"],
  { limit, of = route }: { readonly limit?: RateLimit; readonly of?: WebhookRoute } = {},
) {
  const stored: Array<{ readonly agent: string; readonly key: string; readonly text: string }> = [];
  const log = collectingLog();
  let asked = 0;
  let running = 0;
  let runningMax = 0;
  const inbox = {
    publish: async (id: { readonly name: string }, data: Uint8Array): Promise<PublishResult> => {
      const tag = answer(asked++);
      runningMax = Math.max(runningMax, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
      if (tag === "Unavailable") return { _tag: "Unavailable", message: "the broker is away" };
      const { head, body: bytes } = decodeEnvelope(data);
      stored.push({ agent: id.name, key: head.key, text: Buffer.from(bytes).toString() });
      return { _tag: "Stored", seq: stored.length as never };
    },
  };
  const done = storeBatch(
    {
      route: of,
      request: requestOf({ body: "[]", nowMs: NOW_MS }),
      items,
      replayId: "r",
      delivery: "d",
      headers: { "content-length": "999", "content-type": "text/plain", "x-a": "b" },
    },
    { inbox, log, id: () => "made", signal: AbortSignal.timeout(10_000), ...(limit && { limit }) },
  );
  return { done, stored, log, runningMax: () => runningMax };
}

describe("a batch", () => {
  test("is answered 200 when every event is stored, each agent's in the batch's order", async () => {
    const items = Array.from({ length: 300 }, (_, n) => event(`agent-${n % 100}`, n));
    const { done, stored, runningMax } = store(items, () => "Stored");
    expect(await done).toMatchObject({ status: 200, body: "OK" });
    expect(stored).toHaveLength(300);
    for (let agent = 0; agent < 100; agent++)
      expect(stored.filter((s) => s.agent === `agent-${agent}`).map((s) => s.key)).toEqual(
        [0, 100, 200].map((n) => `sendgrid:agent-${agent}-${agent + n}`),
      );
    expect(runningMax()).toBe(64);
  });

  test("is answered 503 unless every event is known to be stored", async () => {
    const items = [event("a", 1), event("b", 2), event("b", 3)];
    const { done, stored, log } = store(items, (n) => (n === 1 ? "Unavailable" : "Stored"));
    expect(await done).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
    expect(stored.map((s) => s.agent)).toEqual(["a"]);
    expect(log.lines).toMatchObject([{ level: "error", fields: { why: "the broker is away" } }]);
  });

  test("over one of its agents' rates is refused whole, before anything is stored", async () => {
    const clock = { nowMs: 0, monotonicMs: () => clock.nowMs };
    const limit = new RateLimit({ perSecond: 1, burst: 3 }, clock);
    const big = Array.from({ length: 5 }, (_, n) => event("hot", n));
    expect(await store(big, () => "Stored", { limit }).done).toMatchObject({ status: 200 });
    const mixed = [event("cold", 1), event("hot", 6)];
    const refused = store(mixed, () => "Stored", { limit });
    expect(await refused.done).toMatchObject({ status: 429, headers: { "retry-after": "3" } });
    expect(refused.stored).toEqual([]);
    // Nothing was taken of the agent that had tokens.
    for (let n = 0; n < 3; n++) expect(limit.take("Recipient/cold")).toBe(0);
    expect(limit.take("Recipient/cold")).toBe(1);
    clock.nowMs += 3_000;
    expect(await store(mixed, () => "Stored", { limit }).done).toMatchObject({ status: 200 });
  });

  test("without events is answered 200", async () => {
    const { done } = store([], () => "Stored");
    expect(await done).toMatchObject({ status: 200 });
  });

  test("keeps the events that name an agent, and logs the others", async () => {
    const nobody: BatchItem = { body: Buffer.from('{"n":1}'), dedupId: "x" };
    const { done, stored, log } = store([nobody, event("a", 1), nobody], () => "Stored");
    expect(await done).toMatchObject({ status: 200 });
    expect(stored).toEqual([{ agent: "a", key: "sendgrid:a-1", text: '{"email":"a","n":1}' }]);
    expect(log.lines).toMatchObject([
      { level: "warn", fields: { events: 2, of: 3, why: "Missing email" } },
    ]);
  });

  test("of a route for several agents logs how many of their events were skipped", async () => {
    const target = { agent: "Recipient", verify: route.verifier };
    const also = [{ agent: "Other", entity: body("group") }];
    const of = webhook("/w", { ...target, entity: body("email"), also });
    const { done, stored, log } = store([event("a", 1), event("b", 2)], () => "Stored", { of });
    expect(await done).toMatchObject({ status: 200 });
    expect(stored).toHaveLength(2);
    expect(log.lines).toMatchObject([{ fields: { events: 2, of: 4, why: "Missing group" } }]);
  });

  test("without an agent in any event is refused as a single event would be", async () => {
    for (const bytes of ["7", '{"email":null}', `{"email":"${"x".repeat(2000)}"}`]) {
      const { done, stored, log } = store([{ body: Buffer.from(bytes) }], () => "Stored");
      expect((await done).status).toBe(400);
      expect(log.lines).toEqual([]); // the endpoint logs the refusal
      expect(stored).toEqual([]);
    }
  });
});
