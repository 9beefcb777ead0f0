import { expect, test } from "vitest";
import { headerKey } from "../../core/step/stepKey.ts";

const KEYS = [
  "Pay/a/1:1:支払い", "Pay/a/1:1:charge → 5 €", "Pay/a/1:1:two\nlines", "Pay/a/1:1:\ud800",
  `Pay/a/1:1:${"x".repeat(256)}`, `Pay/a/1:1:${"x".repeat(255)}y`, `Pay/a/1:1:${"支".repeat(200)}`,
  "Pay/a/1:1:charge ", "Pay/a/1:1:charge\t",
]; // prettier-ignore

test("a key that a header can carry is used as it is", () => {
  for (const key of ["Pay/a/1:1:charge the card", "Pay/a/1:2:für Müller", `${"k".repeat(255)}`])
    expect(headerKey(key)).toBe(key);
});

test("any other becomes one that a header can carry, of at most 255 characters", () => {
  for (const key of KEYS) {
    const made = headerKey(key);
    expect(new Headers({ "idempotency-key": made }).get("idempotency-key")).toBe(made);
    expect(made.length).toBeLessThanOrEqual(255);
  }
});

test("different keys stay different, also from their encodings", () => {
  const made = [...KEYS, ...KEYS.map((key) => encodeURI(key.replace(/\p{Surrogate}/gu, "-")))];
  expect(new Set(made.map(headerKey)).size).toBe(new Set(made).size);
});
