/** Requests with several events: each its own bytes, id and type, however the JSON is written. */
import fc from "../kit/property.ts";
import { describe, expect, test } from "vitest";
import type { Verdict } from "../../core/webhook/WebhookRoute.ts";
import { jsonElements } from "../../services/webhooks/verifier/jsonElements.ts";
import { providers, sentBy } from "./everyProvider.ts";
import { verdictOf } from "./requests.ts";

const verdictOn = (name: "sendgrid" | "hubspot" | "meta", body: string): Verdict => {
  const provider = providers.find((each) => each.name === name)!;
  return verdictOf(provider.make({ replayGuard: true }), sentBy(provider, { body }));
};
function itemsOf(name: "sendgrid" | "hubspot" | "meta", body: string) {
  const verdict = verdictOn(name, body);
  if (verdict._tag !== "Verified") throw new Error(JSON.stringify(verdict));
  return verdict.items?.map((item) => ({ ...item, body: Buffer.from(item.body).toString() }));
}
const HASH = "sha256:[0-9a-f]{64}";

describe("a SendGrid batch", () => {
  test("is split byte for byte: numbers, escapes and blanks stay as they were signed", () => {
    const body = `[ {"sg_event_id":"a==","event":"open","n":12345678901234567890, "t":"\\u00e9]}," } ,\r\n{"sg_event_id":"b","event":"click"}\n]\r\n`;
    expect(itemsOf("sendgrid", body)).toEqual([
      {
        dedupId: "a==",
        eventType: "open",
        body: `{"sg_event_id":"a==","event":"open","n":12345678901234567890, "t":"\\u00e9]}," }`,
      },
      { dedupId: "b", eventType: "click", body: `{"sg_event_id":"b","event":"click"}` },
    ]);
  });

  test("gives an event without an id the batch's id and its index", () => {
    const items = itemsOf("sendgrid", '[{"event":"open"},{"sg_event_id":"b"},7]')!;
    expect(items.map(({ dedupId }) => dedupId)).toEqual([
      expect.stringMatching(`^${HASH}#0$`),
      "b",
      expect.stringMatching(`^${HASH}#2$`),
    ]);
  });

  test("may be empty, or not a batch at all", () => {
    expect(itemsOf("sendgrid", "[]")).toEqual([]);
    expect(itemsOf("sendgrid", '{"event":"open"}')).toBeUndefined();
    expect(itemsOf("sendgrid", "not json")).toBeUndefined();
  });
});

test("HubSpot's events keep their id over attempts, which count from 1", () => {
  const event = (attemptNumber: number) =>
    JSON.stringify({
      eventId: 1,
      subscriptionId: 2,
      occurredAt: 3,
      subscriptionType: "deal.creation",
      attemptNumber,
    });
  const [first, again] = itemsOf("hubspot", `[${event(0)},${event(4)}]`)!;
  expect(first).toMatchObject({ dedupId: "1:2:3", eventType: "deal.creation", attempt: 1 });
  expect(again).toMatchObject({ dedupId: "1:2:3", attempt: 5 });
});

describe("a Meta batch", () => {
  const entry = (id: string) => `{"id":"${id}","time":1,"changes":[{"field":"feed","value":{}}]}`;
  const batch = (...ids: string[]) =>
    `{"object" : "page", "entry":[${ids.map(entry).join(" , ")}] , "x":{"entry":[0]}}`;

  test("becomes bodies of the same shape with one entry each", () => {
    const items = itemsOf("meta", batch("a", "b"))!;
    expect(items.map(({ body }) => body)).toEqual([batch("a"), batch("b")]);
    expect(items[0]).toMatchObject({ eventType: "feed" });
  });

  test("has each entry's hash as its id: equal entries share it, others differ", () => {
    const [a, b] = itemsOf("meta", batch("a", "b"))!;
    const [again] = itemsOf("meta", batch("a"))!;
    expect(a!.dedupId).toMatch(new RegExp(`^${HASH}$`));
    expect(again!.dedupId).toBe(a!.dedupId);
    expect(b!.dedupId).not.toBe(a!.dedupId);
  });

  test("takes the last of two equal members, as JSON.parse does, and ignores __proto__", () => {
    const twice = `{"entry":[{"id":"x"}],"entry":[{"id":"y"},{"id":"z"}]}`;
    expect(itemsOf("meta", twice)!.map(({ body }) => JSON.parse(body).entry)).toEqual([
      [{ id: "y" }],
      [{ id: "z" }],
    ]);
    expect(itemsOf("meta", '{"__proto__":{"entry":[1]}}')).toBeUndefined();
    expect(itemsOf("meta", '{"entry":{"0":1}}')).toBeUndefined();
  });
});

describe("splitting a JSON list", () => {
  const blanks = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
  const texts = fc.array(
    fc.oneof(
      fc.json({ maxDepth: 3 }),
      fc.json({ maxDepth: 2 }).map((text) => JSON.stringify(JSON.parse(text), null, 2)),
      fc.string({ unit: "binary" }).map((text) => JSON.stringify(text)),
      fc.constantFrom(
        "1e400",
        "-0.0",
        "12345678901234567890",
        '"\\"]"',
        '"\\\\"',
        "[]",
        "{}",
        '""',
      ),
    ),
    { maxLength: 6 },
  );
  const cut = (text: string, member?: string) =>
    jsonElements(Buffer.from(text), member)?.elements.map((e) => Buffer.from(e).toString());
  /** Trimmed by JSON's own blanks, of which JavaScript knows more. */
  const bare = (text: string) => text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");

  test("returns the texts from which a list was made", () => {
    fc.assert(
      fc.property(texts, blanks, (elements, blank) => {
        const list = `${blank}[${blank}${elements.join(`${blank},${blank}`)}${blank}]${blank}`;
        expect(cut(list)).toEqual(elements.map(bare));
        const inObject = `${blank}{"a":{"list":[1]},${blank}"l\\u0069st"${blank}:${list},"b":"list"}`;
        expect(cut(inObject, "list")).toEqual(elements.map(bare));
      }),
      { numRuns: 500 },
    );
  });

  test("skips a byte order mark, and returns no list for other bodies", () => {
    expect(cut("\ufeff[1,2]")).toEqual(["1", "2"]);
    for (const none of ["{}", "7", '"[1]"', "", "null"]) expect(cut(none), none).toBeUndefined();
    expect(cut('{"a":1}', "list")).toBeUndefined();
  });

  test("never throws nor hangs, whatever the bytes", () => {
    for (const broken of ["[1}", "[}", "[,}", "[[1}}"]) expect(cut(broken), broken).toBeUndefined();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        jsonElements(bytes);
      }),
      { numRuns: 2000 },
    );
  });
});
