/**
 * Fetches the official release from GitHub: downloads it, checks its digest before anything reads
 * it, and unpacks it into the cache. Digests of the common platforms are pinned here. Those of the
 * others come from the release's own SHA256SUMS, so for them GitHub is trusted.
 *
 * Timeouts are short while nothing arrives, so that an offline machine moves on, and long
 * otherwise.
 */
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { putIntoCache, withWorkFolder } from "./BinaryCache.ts";
import { lastLines, runProgram } from "./runProgram.ts";
import { binaryName, type PlaceAnswer, type Search } from "./Search.ts";

export const RELEASE_URL = "https://github.com/nats-io/nats-server/releases/download";
const RELEASE = "v2.14.5";

const PINNED_SHA256: Readonly<Record<string, string>> = {
  "linux-amd64": "5e3b603d47c447bda1f77f9ac16dbf91c90aac4ff3681f8fbbc7201e4ed99355",
  "linux-arm64": "673a98d3faa79dde3f9ebf16d6dfac36a5f694e7ad2015e4954dd7939c85cd4c",
};

/** From the request to the first byte, redirects included. A working network takes one second. */
const ANSWER_TIMEOUT_MS = 5_000;
/** Between two chunks of a body. After it the connection counts as dead. */
const STALL_TIMEOUT_MS = 15_000;
/** Releases are about 8 MiB. A far larger body is something else. */
const DOWNLOAD_BYTES_MAX = 64 * 1024 * 1024;
const SUMS_BYTES_MAX = 64 * 1024;
const UNPACK_TIMEOUT_MS = 60_000;

/** Maps Node's names of platforms and processors to those in the release's file names. */
const OS_NAMES: Readonly<Record<string, string>> = { win32: "windows" };
const ARCH_NAMES: Readonly<Record<string, string>> = {
  x64: "amd64",
  ia32: "386",
  arm: "arm7",
  ppc64: "ppc64le",
};

/** Fetches the release. Failures of network, archive or disk are `failed`, never a rejection. */
export async function githubRelease(search: Search): Promise<PlaceAnswer> {
  const os = OS_NAMES[search.platform] ?? search.platform;
  const target = `${os}-${ARCH_NAMES[search.arch] ?? search.arch}`;
  const folderName = `nats-server-${RELEASE}-${target}`;
  const archiveName = `${folderName}.tar.gz`;
  const url = `${search.releaseUrl}/${RELEASE}/${archiveName}`;
  search.progress(`Downloading nats-server ${RELEASE} from ${new URL(url).host} …`);
  try {
    return await withWorkFolder(search, async (folder) => {
      const wanted = PINNED_SHA256[target] ?? (await listedSha256(search, archiveName));
      if (wanted === undefined) {
        return failed(`the release lists no ${archiveName}: this platform is not supported`);
      }
      const archive = join(folder, archiveName);
      const got = await download(search, url, archive);
      if (got !== wanted) {
        return failed(`${url}: its sha256 is ${got}, not ${wanted}; it was not unpacked`);
      }
      const member = `${folderName}/${binaryName(search.platform)}`;
      const end = await runProgram("tar", ["-xzf", archiveName, member], {
        cwd: folder, // some tars read a Windows path after -f as a host name
        timeoutMs: UNPACK_TIMEOUT_MS,
        signal: search.signal,
      });
      if (end.kind === "failed") return failed(`tar could not unpack it: ${end.why}`);
      if (end.code !== 0) return failed(`tar could not unpack it: ${lastLines(end.stderr, 2)}`);
      return putIntoCache(search, join(folder, member));
    });
  } catch (error) {
    const hint = error instanceof TypeError ? proxyHint(search.env) : "";
    return failed(`${url}: ${reasonOf(error)}${hint}`);
  }
}

/** Downloads `url` to `file` and returns its sha256 in hex. */
async function download(search: Search, url: string, file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(async function* () {
    for await (const chunk of bodyOf(search, url, DOWNLOAD_BYTES_MAX)) {
      hash.update(chunk);
      yield chunk;
    }
  }, createWriteStream(file));
  return hash.digest("hex");
}

/** The digest of `archiveName` in the release's own list; undefined if the list lacks it. */
async function listedSha256(search: Search, archiveName: string): Promise<string | undefined> {
  const url = `${search.releaseUrl}/${RELEASE}/SHA256SUMS`;
  const chunks: Uint8Array[] = [];
  for await (const chunk of bodyOf(search, url, SUMS_BYTES_MAX)) chunks.push(chunk);
  for (const line of Buffer.concat(chunks).toString("utf8").split("\n")) {
    const [sum, name] = line.trim().split(/\s+\*?/);
    if (name === archiveName && sum !== undefined && /^[0-9a-f]{64}$/.test(sum)) return sum;
  }
  return undefined;
}

/** The chunks of the body at `url`. Throws when it stalls or exceeds `bytesMax`. */
async function* bodyOf(
  search: Search,
  url: string,
  bytesMax: number,
): AsyncGenerator<Uint8Array, void> {
  const silence = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const allow = (ms: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new Error(`nothing arrived for ${ms / 1000} s`)), ms);
  };
  try {
    allow(ANSWER_TIMEOUT_MS);
    const signal = AbortSignal.any([silence.signal, search.signal]);
    const response = await fetch(url, { signal });
    if (!response.ok) throw new Error(`answered ${response.status}`);
    if (response.body === null) throw new Error("answered without a body");
    allow(STALL_TIMEOUT_MS);
    let bytes = 0;
    for await (const chunk of response.body) {
      allow(STALL_TIMEOUT_MS);
      bytes += chunk.byteLength;
      if (bytes > bytesMax) throw new Error(`sent more than ${bytesMax} bytes`);
      yield chunk;
    }
  } finally {
    clearTimeout(timer);
  }
}

/** The innermost cause's message: `fetch` itself only reports "fetch failed". */
function reasonOf(error: unknown): string {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  return inner instanceof Error ? inner.message : String(inner);
}

/** For a `fetch` that reached nothing, which does not use the proxy that npm uses. */
function proxyHint({ HTTPS_PROXY, https_proxy, NODE_USE_ENV_PROXY }: NodeJS.ProcessEnv): string {
  if (!(https_proxy || HTTPS_PROXY) || NODE_USE_ENV_PROXY === "1") return "";
  return "; to use HTTPS_PROXY, set NODE_USE_ENV_PROXY=1 (Node 22.21, 24.5 or newer)";
}

function failed(why: string): PlaceAnswer {
  return { kind: "failed", why };
}
