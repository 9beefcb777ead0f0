/** Finds the floor pipeline and its load scripts, which belong to no release: they can't drift. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BenchFailed } from "../Bench.ts";

export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

export interface FloorFiles {
  readonly floor: string;
  readonly presign: string;
  readonly lua: string;
}

export function findFloor(): FloorFiles {
  const floor = process.env["AGENTS_FLOOR"] ?? join(ROOT, "../shared/bench/floor.mjs");
  const beside = (name: string): string => join(floor, "..", name);
  const files = { floor, presign: beside("presign.mjs"), lua: beside("webhooks.lua") };
  const missing = Object.values(files).filter((file) => !existsSync(file));
  if (missing.length === 0) return files;
  throw new BenchFailed(
    `The floor to compare with isn't here: ${missing.join(", ")} missing. Set AGENTS_FLOOR to the path of floor.mjs (presign.mjs and webhooks.lua lie beside it).`,
  );
}
