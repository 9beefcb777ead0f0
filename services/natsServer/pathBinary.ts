/**
 * Finds the machine's own `nats-server`: the first on PATH that is new enough. Older ones before it
 * are skipped, as other programs may need them.
 */
import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import { binaryName, checkBinary, type PlaceAnswer, type Search } from "./Search.ts";
import { versionText } from "./ServerVersion.ts";

export async function pathBinary(search: Search): Promise<PlaceAnswer> {
  // Windows names it `Path`, and a copied environment is case-sensitive, unlike Node's own.
  const folders = search.env["PATH"] ?? search.env["Path"] ?? "";
  const reasons: string[] = [];
  for (const folder of folders.split(search.platform === "win32" ? ";" : ":")) {
    if (folder === "") continue;
    const path = join(folder, binaryName(search.platform));
    if (!isProgram(path)) continue;
    const check = await checkBinary(path, search.signal);
    if (check.kind === "good") {
      return { kind: "found", path, version: versionText(check.version) };
    }
    reasons.push(`${path}: ${check.why}`);
  }
  return { kind: "failed", why: reasons.length > 0 ? reasons.join("; ") : "none there" };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false; // absent or not executable: the search continues
  }
}
