/**
 * The per-user cache of downloaded nats-server binaries: its folder, its file names, and its use by
 * several processes at once.
 *
 * 1. A file appears under its final name only by a rename, complete and checked. It is never
 *    written in place.
 * 2. Each writer works in a folder of its own, on the same disk as the final place.
 * 3. A binary that is found is run and asked for its version before it is trusted.
 */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { checkBinary, type PlaceAnswer, type Search } from "./Search.ts";
import { versionText, type ServerVersion } from "./ServerVersion.ts";

/** Longer than any download may take. The writer of an older folder was killed. */
const ABANDONED_MS = 3_600_000;
const WORK_PREFIX = ".fetch-";

/** `agents/nats-server` in `$XDG_CACHE_HOME`, or in the platform's own cache folder. */
export function cacheFolderOf(
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform,
  homeFolder: string,
): string {
  const local = env["LOCALAPPDATA"];
  const xdg = env["XDG_CACHE_HOME"];
  let base = join(homeFolder, ".cache");
  if (platform === "darwin") base = join(homeFolder, "Library", "Caches");
  if (platform === "win32") base = local || join(homeFolder, "AppData", "Local");
  // The XDG specification says to ignore a relative path.
  if (xdg?.startsWith("/") === true) base = xdg;
  return join(base, "agents", "nats-server");
}

/** Finds the newest binary in the cache that runs here and is new enough. */
export async function cachedBinary(search: Search): Promise<PlaceAnswer> {
  let names: string[];
  try {
    names = readdirSync(search.cacheFolder);
  } catch {
    return { kind: "failed", why: `${search.cacheFolder}: nothing there yet` };
  }
  const suffix = fileSuffix(search);
  const newestFirst = names
    .filter((name) => name.startsWith("nats-server-") && name.endsWith(suffix))
    .toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }));
  const reasons: string[] = [];
  for (const name of newestFirst) {
    const path = join(search.cacheFolder, name);
    const check = await checkBinary(path, search.signal);
    if (check.kind === "good") {
      return { kind: "found", path, version: versionText(check.version) };
    }
    reasons.push(`${path}: ${check.why}`);
  }
  const nothing = `${search.cacheFolder}: none for ${search.platform}-${search.arch}`;
  return { kind: "failed", why: reasons.length > 0 ? reasons.join("; ") : nothing };
}

/**
 * Runs `work` with an empty folder inside the cache, which is removed afterwards. Also removes the
 * folders of killed writers. Rejects when the cache cannot be written.
 */
export async function withWorkFolder<A>(
  search: Search,
  work: (folder: string) => Promise<A>,
): Promise<A> {
  mkdirSync(search.cacheFolder, { recursive: true });
  for (const name of readdirSync(search.cacheFolder)) {
    if (name.startsWith(WORK_PREFIX)) removeIfAbandoned(join(search.cacheFolder, name));
  }
  const folder = mkdtempSync(join(search.cacheFolder, WORK_PREFIX));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Checks the binary at `from`, inside a work folder, and moves it to its place in the cache. */
export async function putIntoCache(search: Search, from: string): Promise<PlaceAnswer> {
  chmodSync(from, 0o755);
  const check = await checkBinary(from, search.signal);
  if (check.kind === "bad") return { kind: "failed", why: check.why };
  const path = join(search.cacheFolder, fileName(search, check.version));
  try {
    renameSync(from, path);
  } catch (error) {
    // Windows does not replace a file that is being run. The existing file is then as good.
    if ((await checkBinary(path, search.signal)).kind === "bad") throw error;
  }
  return { kind: "found", path, version: versionText(check.version) };
}

/** The name contains the platform, because machines may share a home folder. */
function fileName(search: Search, version: ServerVersion): string {
  return `nats-server-${version.major}.${version.minor}.${version.patch}${fileSuffix(search)}`;
}

function fileSuffix(search: Search): string {
  return `-${search.platform}-${search.arch}${search.platform === "win32" ? ".exe" : ""}`;
}

function removeIfAbandoned(folder: string): void {
  try {
    if (Date.now() - statSync(folder).mtimeMs < ABANDONED_MS) return;
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // The writer or another process has just removed it.
  }
}
