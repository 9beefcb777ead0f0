/** Commands of one release, and its parts: an older one may lack what is tested. */
import { execFile, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Fleet, Release } from "../membership/Fleet.ts";

/** Each is a folder of `core`. */
export type Part = "stream" | "quarantine" | "retention" | "step" | "durableCall";

/** In the sources of `commit`: a packed release is a few bundles. */
export const hasPart = (commit: string, part: Part): boolean =>
  spawnSync("git", ["cat-file", "-e", `${commit}:core/${part}`], { cwd: ROOT }).status === 0;

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** What a command of a release prints. */
export async function runRelease(
  { main }: Release,
  fleet: Fleet,
  ...args: ReadonlyArray<string>
): Promise<string> {
  const all = [main, ...args, "--nats", fleet.nats.url];
  return (await promisify(execFile)(process.execPath, all)).stdout;
}
