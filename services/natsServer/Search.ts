/**
 * What the places where a nats-server is looked for share: what they are given and how they answer.
 * `findNatsServer` asks them in order; each is one file: `pathBinary`, `BinaryCache`, `githubRelease`,
 * `debianPackage`.
 */
import { runProgram } from "./runProgram.ts";
import {
  isNewEnough,
  NEEDED_VERSION_TEXT,
  parseVersion,
  versionText,
  type ServerVersion,
} from "./ServerVersion.ts";

/** The machine that is searched: a test hands in one that it made up. */
export interface Search {
  readonly env: NodeJS.ProcessEnv;
  readonly platform: NodeJS.Platform;
  /** As in `process.arch`. */
  readonly arch: string;
  /** Where `os-release` and `apt/` are: `/etc`. */
  readonly etcFolder: string;
  /** Of this user, for what was fetched once. */
  readonly cacheFolder: string;
  /** Below it `v2.14.5/<file>`. */
  readonly releaseUrl: string;
  /** A line for people, before and after what may take more than a second. */
  readonly progress: (line: string) => void;
  readonly signal: AbortSignal;
}

export type PlaceAnswer =
  | { readonly kind: "found"; readonly path: string; readonly version: string }
  | { readonly kind: "failed"; readonly why: string };

export type BinaryCheck =
  | { readonly kind: "good"; readonly version: ServerVersion }
  | { readonly kind: "bad"; readonly why: string };

/** Printing a version takes milliseconds; a binary on a cold network disk takes a little longer. */
const VERSION_TIMEOUT_MS = 10_000;

/** Runs `path --version`: `bad` says whether it does not run, is not nats-server, or is too old. */
export async function checkBinary(path: string, signal: AbortSignal): Promise<BinaryCheck> {
  const end = await runProgram(path, ["--version"], { timeoutMs: VERSION_TIMEOUT_MS, signal });
  if (end.kind === "failed") return { kind: "bad", why: `it does not run: ${end.why}` };
  const version = parseVersion(end.stdout);
  if (end.code !== 0 || version === undefined) {
    return { kind: "bad", why: `it is no nats-server: --version ended with code ${end.code}` };
  }
  if (!isNewEnough(version)) {
    const why = `it is ${versionText(version)}, too old (needed: ${NEEDED_VERSION_TEXT})`;
    return { kind: "bad", why };
  }
  return { kind: "good", version };
}

export function binaryName(platform: NodeJS.Platform): string {
  return platform === "win32" ? "nats-server.exe" : "nats-server";
}
