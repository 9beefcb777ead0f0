/** Each set of golden files is what one release wrote, and every later release reads it. */
import { describe, expect, it } from "vitest";
import { FORMATS } from "./formats.ts";
import { asJson, readJson, setsOf, type Golden } from "./sets.ts";
import { EXPECTED, readWhole, type Whole } from "./whole.ts";

const sets = setsOf();
const REMEDY =
  "a stored format changed. If that is on purpose: npm run golden writes a new set, and the older ones stay readable (CONTRIBUTING.md)";

describe("golden files", () => {
  for (const set of sets) {
    const name = set.split("/").at(-1);
    it.each(Object.keys(FORMATS))(`set ${name} is read as it was written: %s`, (format) => {
      const golden = readJson<Golden>(set, format);
      if (golden === undefined) return expect(sets.indexOf(set)).toBeLessThan(sets.length - 1);
      const bytes = new Uint8Array(Buffer.from(golden.bytes, "base64"));
      expect(asJson(FORMATS[format]!.read(bytes))).toEqual(golden.reads);
    });

    it(`set ${name}: journal, base, archive and backup restore the same agent`, async () => {
      const whole = readJson<Whole>(set, "whole")!;
      const { journal, archive, backup, base } = await readWhole(set, whole);
      expect(journal).toEqual(EXPECTED);
      expect({ archive, backup, base }).toEqual({
        archive: EXPECTED,
        backup: EXPECTED,
        base: EXPECTED,
      });
    });
  }

  it.each(Object.entries(FORMATS))(
    "the newest set is what this release writes: %s",
    (name, { write }) => {
      const golden = readJson<Golden>(sets.at(-1)!, name);
      expect(golden, REMEDY).toBeDefined();
      expect(Buffer.from(write()).toString("base64"), REMEDY).toBe(golden!.bytes);
    },
  );

  it.each(Object.entries(FORMATS))("the sample has every field: %s", (name, { fields = [] }) => {
    const has = new Set<string>();
    collect(readJson<Golden>(sets.at(-1)!, name)?.reads, has);
    expect(
      fields.filter((field) => !has.has(field)),
      `${REMEDY}, and give the sample in test/schemas/golden/formats.ts the field`,
    ).toEqual([]);
  });
});

function collect(value: unknown, into: Set<string>): void {
  if (typeof value !== "object" || value === null) return;
  for (const [key, field] of Object.entries(value)) {
    into.add(key);
    collect(field, into);
  }
}
