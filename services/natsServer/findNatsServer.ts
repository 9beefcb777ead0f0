/**
 * Finds a nats-server binary that is new enough, so that a user need not install one first. Owns
 * the order of the places and the error that lists what was tried. Each place is a file of its own:
 *
 * `NATS_SERVER` → PATH → the user's cache → the official release → the distribution's next suite
 *
 * `NATS_SERVER` is an order, not a hint: if that binary does not work, nothing else is tried.
 * Running servers (`--nats`, `NATS_URL`) are not looked for here. Feeds `NatsServer`, `agents dev`
 * and the test kit.
 */
import { homedir } from "node:os";
import * as Data from "effect/Data";
import * as Effect from "effect/Effect";
import { cachedBinary, cacheFolderOf } from "./BinaryCache.ts";
import { debianPackage } from "./debianPackage.ts";
import { githubRelease, RELEASE_URL } from "./githubRelease.ts";
import { pathBinary } from "./pathBinary.ts";
import { checkBinary, type PlaceAnswer, type Search } from "./Search.ts";
import { NEEDED_VERSION_TEXT, versionText } from "./ServerVersion.ts";

type ServerSource =
  "NATS_SERVER" | "PATH" | "the cache" | "the official release" | "the distribution's next suite";

interface FoundServer {
  readonly path: string;
  /** `2.14.5`. */
  readonly version: string;
  readonly source: ServerSource;
}

export interface FindOptions {
  /** Has `NATS_SERVER`, `PATH` and the cache folder's variables. Default: this process's. */
  readonly env?: NodeJS.ProcessEnv;
  /** Receives a readable line about work that takes more than a second. Default: none. */
  readonly onProgress?: (line: string) => void;
  /** Differences from the actual machine, for tests and for mirrors of the releases. */
  readonly machine?: Partial<Omit<Search, "env" | "progress" | "signal">>;
}

/** `NATS_SERVER` names a file that does not run, is not nats-server, or is too old. */
export class NatsServerUnusable extends Data.TaggedError("NatsServerUnusable")<{
  readonly path: string;
  readonly why: string;
}> {
  override get message(): string {
    return (
      `NATS_SERVER is ${this.path}, and ${this.why}. ` +
      `Point it to a nats-server binary of version ${NEEDED_VERSION_TEXT}, or unset it.`
    );
  }
}

/** No place had a usable binary. `tried` lists the places and their reasons, in order. */
export class NatsServerNotFound extends Data.TaggedError("NatsServerNotFound")<{
  readonly tried: readonly { readonly place: ServerSource; readonly why: string }[];
}> {
  override get message(): string {
    return [
      `No nats-server was found (needed: ${NEEDED_VERSION_TEXT}). Tried, in this order:`,
      ...this.tried.map(({ place, why }) => `  - ${place}: ${why}`),
      "Install it (https://docs.nats.io/running-a-nats-service/introduction/installation) and put it on",
      "PATH or set NATS_SERVER to the binary; or set NATS_URL to a server that already runs.",
    ].join("\n");
  }
}

/** Finds a binary, and downloads one into the cache if needed. Interrupting it stops a download. */
export const findNatsServer = (
  options: FindOptions = {},
): Effect.Effect<FoundServer, NatsServerUnusable | NatsServerNotFound> =>
  Effect.callback((resume, signal) => {
    const search = searchOf(options, signal);
    void find(search).then(
      (found) => resume(found instanceof Error ? Effect.fail(found) : Effect.succeed(found)),
      (defect: unknown) => resume(Effect.die(defect)),
    );
  });

type Found = FoundServer | NatsServerUnusable | NatsServerNotFound;

const PLACES: readonly (readonly [ServerSource, (search: Search) => Promise<PlaceAnswer>])[] = [
  ["PATH", pathBinary],
  ["the cache", cachedBinary],
  ["the official release", githubRelease],
  ["the distribution's next suite", debianPackage],
];

/** The places that take long enough to report progress. */
const FETCHING: ReadonlySet<ServerSource> = new Set<ServerSource>([
  "the official release",
  "the distribution's next suite",
]);

async function find(search: Search): Promise<Found> {
  const given = search.env["NATS_SERVER"] ?? "";
  if (given !== "") {
    const check = await checkBinary(given, search.signal);
    if (check.kind === "bad") return new NatsServerUnusable({ path: given, why: check.why });
    return { path: given, version: versionText(check.version), source: "NATS_SERVER" };
  }
  const tried: { place: ServerSource; why: string }[] = [];
  for (const [place, ask] of PLACES) {
    const answer = await ask(search);
    if (answer.kind === "found") {
      const found = { path: answer.path, version: answer.version, source: place };
      if (FETCHING.has(place)) search.progress(`Got nats-server ${found.version}: ${found.path}`);
      return found;
    }
    if (FETCHING.has(place)) search.progress(`Not from ${place}: ${answer.why}`);
    tried.push({ place, why: answer.why });
    if (search.signal.aborted) break;
  }
  return new NatsServerNotFound({ tried });
}

function searchOf(options: FindOptions, signal: AbortSignal): Search {
  const env = options.env ?? process.env;
  const platform = options.machine?.platform ?? process.platform;
  return {
    env,
    platform,
    arch: process.arch,
    etcFolder: "/etc",
    cacheFolder: cacheFolderOf(env, platform, homedir()),
    releaseUrl: RELEASE_URL,
    progress: options.onProgress ?? (() => undefined),
    signal,
    ...options.machine,
  };
}
