/** The hand-written check of an inbox envelope's head: it accepts only what the schema would. */
import { Schema } from "effect";
import fc from "../kit/property.ts";
import { describe, expect, it } from "vitest";
import { CorruptFrame, encodeFrame } from "../../schemas/Frame.ts";
import {
  decodeEnvelope,
  encodeEnvelope,
  InboxHead,
  isPlainHead,
} from "../../schemas/InboxEnvelope.ts";

const decode = Schema.decodeUnknownResult(InboxHead);

const USUAL = {
  key: "github:1",
  kind: "webhook",
  time: 1_700_000_000_000,
  provider: "github",
  route: "/webhooks/github",
  type: "push",
  method: "POST",
  url: "http://localhost/webhooks/github",
  headers: { "x-github-event": "push" },
  entity: "Acme/Site",
  reply: { subject: "agents.gateway.a.reply", id: "1" },
} as const;

/** Values right for one field or another, and for none. */
const value = fc.oneof(
  fc.string(),
  fc.constantFrom("webhook", "queue", "nonsense"),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.array(fc.string(), { maxLength: 2 }),
  fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer()), { maxKeys: 3 }),
  fc.record({ subject: fc.string(), id: fc.oneof(fc.string(), fc.integer()) }),
  fc.record({ subject: fc.string(), id: fc.string(), more: fc.string() }),
);
/** The usual head with a few fields replaced, added or taken away. */
const head = fc
  .tuple(
    fc.dictionary(fc.constantFrom(...Object.keys(USUAL), "verified", "alsoKeys", "other"), value, {
      maxKeys: 2,
    }),
    fc.subarray(Object.keys(USUAL), { maxLength: 2 }),
  )
  .map(([other, gone]): Record<string, unknown> => {
    const made: Record<string, unknown> = { ...USUAL, ...other };
    for (const name of gone) delete made[name];
    return made;
  });

describe("the hand-written check of an envelope's head", () => {
  it("accepts plain values that the schema accepts unchanged", () => {
    let plain = 0;
    fc.assert(
      fc.property(head, (made) => {
        if (!isPlainHead(made)) return;
        plain++;
        const decoded = decode(made);
        expect(decoded._tag).toBe("Success");
        if (decoded._tag === "Success") expect(decoded.success).toEqual(made);
      }),
      { numRuns: 2_000 },
    );
    expect(plain).toBeGreaterThan(100);
  });

  it("takes the fast path for what a gateway writes for a webhook", () => {
    expect(isPlainHead(USUAL)).toBe(true);
    expect(isPlainHead({ ...USUAL, verified: false })).toBe(true);
  });

  it("takes it for what an older release wrote, without its route", () => {
    const { route: _, ...older } = USUAL;
    expect(isPlainHead(older)).toBe(true);
    expect(decodeEnvelope(encodeEnvelope(older)).head).toEqual(older);
  });

  it("reads a job's delay that an older release stored as null, as one without end", () => {
    const retry = { maxAttempts: 3, baseDelayMs: 100, maxDelayMs: Infinity };
    const job = { kind: "queue", key: "queue:1", retry } as const;
    const { head: read } = decodeEnvelope(encodeEnvelope({ key: "queue:1", kind: "queue", time: 1, job })); // prettier-ignore
    expect(read.job?.retry).toEqual({ ...retry, maxDelayMs: Number.MAX_SAFE_INTEGER });
  });

  it("leaves other values to the schema", () => {
    const replayGuarded = { ...USUAL, alsoKeys: ["github:replay:0"] };
    expect(isPlainHead(replayGuarded)).toBe(false);
    expect(decodeEnvelope(encodeEnvelope(replayGuarded)).head).toEqual(replayGuarded);
    const withoutKey = { kind: "webhook", time: 1 };
    expect(() => decodeEnvelope(encodeFrame(withoutKey))).toThrow(CorruptFrame);
  });

  it("names what is missing where only the claim check of a large input is left", () => {
    const claim = { blob: "inbox/A/a/1", bytes: 3 };
    expect(() => decodeEnvelope(encodeFrame({ claim }))).toThrow("the input's stored body is lost");
  });
});
