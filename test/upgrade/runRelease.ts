/**
 * Commands of one release, and which parts it has: an older one may lack what is tested, and a run
 * then leaves that out.
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Fleet, Release } from "../membership/Fleet.ts";

/** Each is a folder of `core`. */
export type Part = "stream" | "quarantine" | "retention" | "step" | "durableCall";

export const hasPart = ({ main }: Release, part: Part): boolean =>
  existsSync(join(dirname(main), "../../core", part));

/** What a command of a release prints. */
export async function runRelease(
  { main }: Release,
  fleet: Fleet,
  ...args: ReadonlyArray<string>
): Promise<string> {
  const all = [main, ...args, "--nats", fleet.nats.url];
  return (await promisify(execFile)(process.execPath, all)).stdout;
}
