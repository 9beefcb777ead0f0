/**
 * Serves the static files of a module, as the reference's platform does: a file comes before the
 * module's own routing, unless `run_worker_first` sends the path to the module. `gatewayModule`
 * puts it in front of a module's `fetch`.
 *
 * 1. Only files inside the folder are served, by their real path: a link out of it is no file.
 * 2. Names that begin with a dot are not served, except `.well-known`.
 * 3. What `.assetsignore` names is not served (`AssetsIgnore`), neither by the name in the request
 *    nor by that of the file it leads to.
 * 4. `run_worker_first` decides by the file, too, however the request spells its path: a module may
 *    guard what is behind such a pattern (`spellings`).
 * 5. A large file is read as its caller takes it, so that many slow callers use little memory.
 */
import { createHash } from "node:crypto";
import { createReadStream, realpathSync } from "node:fs";
import { readFile, realpath, stat } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import { lookup } from "mrmime";
import { AssetsIgnore } from "./AssetsIgnore.ts";
import type { AssetsConfig } from "./WranglerConfig.ts";

/** Stands for a file that does not exist. */
const NO_FILE = "none";
/** Rule 5. What gateways send in one piece; they limit the larger answers that wait. */
const WHOLE_BYTES_MAX = 64 * 1024;

interface Found {
  /** In the folder, by the request's names. */
  readonly path: string;
  /** Its real path. */
  readonly file: string;
}

/** Answers a request with a file, or resolves to undefined where the module decides. */
export class Assets {
  readonly #root: string | undefined;
  readonly #config: AssetsConfig;
  /** What `.assetsignore` said when it was last read, and in which version. */
  #ignored = { version: NO_FILE, ignore: new AssetsIgnore("") };
  /** Hashes of files that were asked for, by real path. */
  readonly #hashes = new Map<
    string,
    { readonly version: string; readonly hash: Promise<string> }
  >();

  /** A folder that is not there serves nothing. */
  constructor(config: AssetsConfig) {
    this.#config = config;
    try {
      this.#root = realpathSync(config.directory);
    } catch {
      // The page is not built yet; the module's own routes work without it.
      this.#root = undefined;
    }
  }

  /** The file of a request, before the module sees it. */
  async before(request: Request): Promise<Response | undefined> {
    if (!isRead(request)) return undefined;
    const { moduleFirst } = this.#config;
    const { pathname } = new URL(request.url);
    const first = whoIsFirst(pathname, moduleFirst);
    if (first === "module") return undefined;
    const found = await this.#find(pathname);
    if (found !== undefined) {
      const files = [found.path, found.file].flatMap((each) => spellings(this.#namesOf(each)));
      const names = [plainPath(pathname), ...files];
      const isGuarded = names.some((name) => whoIsFirst(name, moduleFirst) === "module");
      if (first === undefined && isGuarded) return undefined; // rule 4
      return this.#answer(request, found.file);
    }
    const navigates = request.headers.get("sec-fetch-mode") === "navigate";
    return this.#config.singlePage && navigates ? this.#index(request) : undefined;
  }

  /** The fetcher that `env` has under the binding's name: a file, the single page, or 404. */
  async fetch(input: Request | string | URL): Promise<Response> {
    const request = input instanceof Request ? input : new Request(input);
    if (!isRead(request)) return new Response("Method Not Allowed", { status: 405 });
    const found = await this.#find(new URL(request.url).pathname);
    if (found !== undefined) return this.#answer(request, found.file);
    const index = this.#config.singlePage ? await this.#index(request) : undefined;
    return index ?? new Response("Not Found", { status: 404 });
  }

  async #index(request: Request): Promise<Response | undefined> {
    const found = await this.#find("/index.html");
    return found === undefined ? undefined : this.#answer(request, found.file);
  }

  /** The file that a path means: itself, with `.html`, or the folder's index. */
  async #find(pathname: string): Promise<Found | undefined> {
    const names = segments(pathname);
    if (this.#root === undefined || names === undefined) return undefined;
    const plain = join(this.#root, ...names);
    for (const path of [plain, `${plain}.html`, join(plain, "index.html")]) {
      const file = await this.#inside(path);
      if (file === undefined) continue;
      const ignore = await this.#ignore();
      const isIgnored = [path, file].some((each) => ignore.ignores(this.#namesOf(each)));
      if (!isIgnored) return { path, file }; // rule 3
    }
    return undefined;
  }

  async #answer(request: Request, file: string): Promise<Response> {
    const etag = `"${await this.#hash(file)}"`;
    const headers = {
      etag,
      "cache-control": "public, max-age=0, must-revalidate",
      "content-type": contentType(file),
    };
    if (hasTag(request.headers.get("if-none-match"), etag))
      return new Response(null, { status: 304, headers });
    if (request.method === "HEAD") return new Response(null, { headers });
    const { size } = await stat(file);
    return new Response(size > WHOLE_BYTES_MAX ? streamOf(file) : await readFile(file), {
      headers,
    });
  }

  async #hash(file: string): Promise<string> {
    const version = await versionOf(file);
    const known = this.#hashes.get(file);
    if (known?.version === version) return known.hash;
    const hash = hashOf(file);
    this.#hashes.set(file, { version, hash });
    hash.catch(() => this.#hashes.delete(file));
    return hash;
  }

  #namesOf(path: string): ReadonlyArray<string> {
    return path.slice(this.#root!.length).split(sep).filter(Boolean);
  }

  /** Rejects if the file can't be read: nothing is served on a guess. */
  async #ignore(): Promise<AssetsIgnore> {
    const path = join(this.#root!, ".assetsignore");
    const version = await versionOf(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return NO_FILE;
      throw error;
    });
    if (version !== this.#ignored.version) {
      const text = version === NO_FILE ? "" : await readFile(path, "utf8");
      this.#ignored = { version, ignore: new AssetsIgnore(text) };
    }
    return this.#ignored.ignore;
  }

  async #inside(path: string): Promise<string | undefined> {
    try {
      const real = await realpath(path);
      if (!real.startsWith(`${this.#root!}${sep}`)) return undefined; // rule 1
      return (await stat(real)).isFile() ? real : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Undefined for a path that names no file: not decodable, hidden (rule 2), or upwards. */
function segments(pathname: string): ReadonlyArray<string> | undefined {
  try {
    const names = decodeURIComponent(pathname).split("/").filter(Boolean);
    const isBad = (name: string): boolean =>
      (name.startsWith(".") && name !== ".well-known") || /[\0\\]/.test(name);
    return names.some(isBad) ? undefined : names;
  } catch {
    return undefined;
  }
}

/** The path without escapes and empty names. It names a file. */
const plainPath = (pathname: string): string =>
  decodeURIComponent(pathname).replace(/\/{2,}/g, "/");

/** The paths that mean a file: its own, and without `.html` or `index.html`. */
function spellings(names: ReadonlyArray<string>): ReadonlyArray<string> {
  const own = `/${names.join("/")}`;
  return [own, own.replace(/\/index\.html$/, "/").replace(/\.html$/, "")];
}

const isRead = ({ method }: Request): boolean => method === "GET" || method === "HEAD";

/** Undefined: no pattern names the path. One that begins with `!` excludes it. */
function whoIsFirst(
  pathname: string,
  patterns: AssetsConfig["moduleFirst"],
): "module" | "files" | undefined {
  if (patterns === true) return "module";
  const names = (pattern: string): boolean => matches(pattern.replace(/^!/, ""), pathname);
  const named = patterns.filter(names);
  if (named.length === 0) return undefined;
  return named.some((pattern) => pattern.startsWith("!")) ? "files" : "module";
}

/**
 * Whether the whole path is as the pattern says; a `*` stands for any text. Each part is looked for
 * once, as early as it can be: a regular expression of several `.*` takes time by a power of the
 * path's length, and the caller chooses the path.
 */
function matches(pattern: string, pathname: string): boolean {
  const [first = "", ...parts] = pattern.split("*");
  const last = parts.pop();
  if (last === undefined) return pathname === first;
  if (!pathname.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = pathname.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return pathname.length - last.length >= at && pathname.endsWith(last);
}

/** Differs once a build has replaced the file. */
const versionOf = async (file: string): Promise<string> => {
  const { mtimeMs, size, ino } = await stat(file);
  return `${mtimeMs} ${size} ${ino}`;
};

async function hashOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of createReadStream(file)) hash.update(piece as Uint8Array);
  return hash.digest("base64url").slice(0, 22);
}

/** Rule 5. Opens the file at the first read: an answer that is dropped leaves none open. */
function streamOf(file: string): ReadableStream<Uint8Array> {
  let pieces: AsyncIterator<Uint8Array> | undefined;
  return new ReadableStream(
    {
      pull: async (controller) => {
        pieces ??= createReadStream(file)[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
        const { done, value } = await pieces.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      cancel: async () => void (await pieces?.return?.()),
    },
    { highWaterMark: 0 },
  );
}

/** Whether `If-None-Match` names the tag, which a proxy that compresses makes weak. */
const hasTag = (given: string | null, etag: string): boolean =>
  given !== null &&
  given.split(",").some((tag) => tag.trim() === "*" || tag.trim().replace(/^W\//, "") === etag);

function contentType(file: string): string {
  const type = lookup(extname(file)) ?? "application/octet-stream";
  return /^text\/|javascript|json|xml/.test(type) ? `${type}; charset=utf-8` : type;
}
