/**
 * One process at a time works on a view's file: `<folder>/lock` has the process that does. Another
 * one waits for its end. A lock that a killed process left is recognized by its pid.
 *
 * Two processes that find such a lock at the same moment can both take it. Nothing wrong is ever
 * read then: each page of the file has a checksum, and a view whose file is damaged is made anew
 * (`core/query/View`, 7).
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TimeShape } from "../../../core/time/Time.ts";
import { isAlive } from "../serving/devFile.ts";
import { failed } from "../terminal/CliError.ts";

/** A query of a small view takes about as long. */
const AGAIN_MS = 100;
/** Longer than a view of 100,000 agents takes to be made anew. */
const WAIT_MS_MAX = 120_000;

/** Rejects with `CliError` when another process holds it for too long, and as `use` does. */
export async function withViewLock<A>(
  folder: string,
  time: Pick<TimeShape, "after" | "monotonicMs">,
  use: () => Promise<A>,
): Promise<A> {
  const path = join(folder, "lock");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const startMs = time.monotonicMs();
  while (!take(path)) {
    const holder = holderOf(path);
    if (holder !== undefined && !isAlive(holder)) rmSync(path, { force: true });
    else if (time.monotonicMs() - startMs > WAIT_MS_MAX)
      throw failed(
        `Process ${holder ?? "unknown"} has been working on the view in ${folder} for too long. If it is no "agents query", remove ${path}.`,
      );
    else await new Promise<void>((resolve) => time.after(AGAIN_MS, resolve));
  }
  try {
    return await use();
  } finally {
    rmSync(path, { force: true });
  }
}

function take(path: string): boolean {
  try {
    writeFileSync(path, String(process.pid), { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Undefined: it is being written, or is gone. */
function holderOf(path: string): number | undefined {
  try {
    return Number(readFileSync(path, "utf8")) || undefined;
  } catch {
    return undefined;
  }
}
