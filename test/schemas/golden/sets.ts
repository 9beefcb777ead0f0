/** The golden files: a folder for each set, numbered from 1, and in it a file for each format. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const FILES = fileURLToPath(new URL("./files", import.meta.url));

export interface Golden {
  /** Base64. */
  readonly bytes: string;
  readonly reads: unknown;
}

/** Paths of the sets, the oldest first. */
export const setsOf = (): ReadonlyArray<string> =>
  existsSync(FILES)
    ? readdirSync(FILES)
        .toSorted((a, b) => Number(a) - Number(b))
        .map((name) => join(FILES, name))
    : [];

/** Undefined where the set has no such file. */
export function readJson<A>(set: string, name: string): A | undefined {
  const path = join(set, `${name}.json`);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as A) : undefined;
}

/** A value as a file has it. */
export const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
