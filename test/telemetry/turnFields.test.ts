/** What a log line says of the turn that it belongs to. */
import { expect, test } from "vitest";
import { turnFields } from "../../core/turn/turnFields.ts";

test("the key of an input, which a client may have chosen, takes up to 256 characters of a line", () => {
  const keyOf = (id: string) => turnFields({ cause: { kind: "connect", id } })["key"];
  expect(keyOf("k".repeat(256))).toBe("k".repeat(256));
  expect(keyOf("k".repeat(8_000))).toBe(`${"k".repeat(256)}…`);
});
