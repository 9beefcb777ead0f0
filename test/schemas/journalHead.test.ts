/** The check compiled from an event head's schema accepts only what the schema would. */
import { Schema } from "effect";
import fc from "../kit/property.ts";
import { describe, expect, it } from "vitest";
import { CorruptFrame, encodeFrame } from "../../schemas/Frame.ts";
import { isPlainJournalHead } from "../../schemas/JournalEvent.ts";
import { Cause, decodeEvent, encodeEvent, JournalHead } from "../../schemas/JournalEvent.ts";
import { CAUSE, TURN, USUAL } from "./usualHead.ts";

const decode = Schema.decodeUnknownResult(JournalHead);

/** Values right for one field or another, and for none. */
const value = fc.oneof(
  fc.string(),
  fc.constantFrom("turns", "claimed", "webhook", "queue", "nonsense"),
  fc.constantFrom(true, false, null, undefined),
  fc.integer(),
  fc.array(fc.string(), { maxLength: 3 }),
  fc.array(fc.integer(), { maxLength: 3 }),
  fc.tuple(fc.integer(), fc.integer(), fc.string()),
  fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer()), { maxKeys: 3 }),
  fc.record({ set: fc.anything() }),
  fc.record({ splice: fc.tuple(fc.integer(), fc.integer(), fc.string()) }),
  fc.record({ clear: fc.constantFrom(true, false) }),
  fc.record({ set: fc.integer(), clear: fc.constant(true) }),
  fc.record({ del: fc.array(fc.string()), put: fc.array(fc.integer()) }),
);
/** `usual` with a few fields replaced, added or taken away. */
const changed = (usual: object): fc.Arbitrary<Record<string, unknown>> =>
  fc
    .tuple(
      fc.dictionary(fc.constantFrom(...Object.keys(usual), "other"), value, { maxKeys: 2 }),
      fc.subarray(Object.keys(usual), { maxLength: 1 }),
    )
    .map(([other, gone]) => {
      const made: Record<string, unknown> = { ...usual, ...other };
      for (const name of gone) delete made[name];
      return made;
    });
const head = fc
  .record({
    head: changed(USUAL),
    turn: fc.option(changed({ ...TURN, begun: true, dead: true })),
    cause: fc.option(changed({ ...CAUSE, bodyBase64: "AA==" })),
  })
  .map(({ head: made, turn, cause }) => {
    if (turn === null && cause === null) return made;
    const whole = turn ?? { ...TURN };
    return { ...made, turns: [TURN, cause === null ? whole : { ...whole, cause }] };
  });

describe("the compiled check of an event's head", () => {
  it("accepts plain values that the schema accepts unchanged", () => {
    let plain = 0;
    let refused = 0;
    fc.assert(
      fc.property(head, (made) => {
        if (!isPlainJournalHead(made)) return void refused++;
        plain++;
        const decoded = decode(made);
        expect(decoded._tag).toBe("Success");
        if (decoded._tag === "Success") expect(decoded.success).toEqual(made);
      }),
      { numRuns: 3_000 },
    );
    expect(plain).toBeGreaterThan(100);
    expect(refused).toBeGreaterThan(100);
  });

  it("takes the fast path for every kind that hosts write", () => {
    expect(isPlainJournalHead(USUAL)).toBe(true);
    for (const kind of Cause.fields.kind.literals)
      expect([kind, isPlainJournalHead({ ...USUAL, turns: [{ cause: { kind } }] })]).toEqual([
        kind,
        true,
      ]);
    for (const kind of ["claimed", "destroyed"])
      expect([kind, isPlainJournalHead({ ...USUAL, kind, turns: [] })]).toEqual([kind, true]);
  });

  it("leaves other values to the schema", () => {
    const newer = { ...USUAL, addedLater: 1 };
    expect(isPlainJournalHead(newer)).toBe(false);
    expect(decodeEvent(encodeFrame(newer)).head).toEqual(USUAL);
    expect(() => decodeEvent(encodeFrame({ ...USUAL, turns: [{ done: [] }] }))).toThrow(
      CorruptFrame,
    );
    expect(decodeEvent(encodeEvent(USUAL)).head).toEqual(USUAL);
  });
});
