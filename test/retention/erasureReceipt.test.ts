/** An erasure's receipt: its file is checked before anything is erased, and it is never lost. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { decodeReceipt, type ErasureReceipt } from "../../schemas/ErasureReceipt.ts";
import {
  checkReceipt,
  sha256,
  writeReceipt,
} from "../../services/cli/agents/erasure/erasureReceipt.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const folder = tempFolder("erasure-receipt");
afterAll(() => folder.remove());

const RECEIPT: ErasureReceipt = { time: "t", namespace: "n", agents: [], away: [], backups: [] };

test("a receipt that can't be created is refused, and a check leaves no file behind", () => {
  const file = join(folder.path, "receipt.json");
  checkReceipt(file);
  expect(existsSync(file)).toBe(false);
  writeFileSync(file, "");
  expect(() => checkReceipt(file)).toThrow("exists already. Nothing was removed");
  expect(() => checkReceipt(join(file, "below"))).toThrow(/ENOTDIR.*Nothing was removed/);
});

test("a receipt that can't be written later is in the error", async () => {
  const why: unknown = await writeReceipt(join(folder.path, "gone/receipt.json"), RECEIPT).catch(
    (error: unknown) => error,
  );
  const { message } = why as Error;
  expect(message).toContain("ENOENT");
  expect(decodeReceipt(message.slice(message.indexOf("{")), sha256)).toEqual(RECEIPT);
});
