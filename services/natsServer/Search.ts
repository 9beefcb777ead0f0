/**
 * The interface of the places where a nats-server is looked for: their input and their answers.
 * `findNatsServer` tries them in order. Each is one file: `pathBinary`, `BinaryCache`,
 * `githubRelease`, `debianPackage`.
 */
import { runProgram } from "./runProgram.ts";
import {
  isNewEnough,
  NEEDED_VERSION_TEXT,
  parseVersion,
  versionText,
  type ServerVersion,
} from "./ServerVersion.ts";

/** The machine that is searched. A test provides its own. */
export interface Search {
  readonly env: NodeJS.ProcessEnv;
  readonly platform: NodeJS.Platform;
  /** As in `process.arch`. */
  readonly arch: string;
  /** The folder of `os-release` and `apt/`: `/etc`. */
  readonly etcFolder: string;
  /** This user's cache of downloaded binaries. */
  readonly cacheFolder: string;
  /** The base URL of releases, for example of `v2.14.5/<file>`. */
  readonly releaseUrl: string;
  /** Receives a readable line before and after work that may take more than a second. */
  readonly progress: (line: string) => void;
  readonly signal: AbortSignal;
}

export type PlaceAnswer =
  | { readonly kind: "found"; readonly path: string; readonly version: string }
  | { readonly kind: "failed"; readonly why: string };

type BinaryCheck =
  | { readonly kind: "good"; readonly version: ServerVersion }
  | { readonly kind: "bad"; readonly why: string };

/** Printing a version takes milliseconds, or a little longer from a cold network disk. */
const VERSION_TIMEOUT_MS = 10_000;

/** Runs `path --version`. `bad` when it does not run, is not nats-server, or is too old. */
export async function checkBinary(path: string, signal: AbortSignal): Promise<BinaryCheck> {
  const end = await runProgram(path, ["--version"], { timeoutMs: VERSION_TIMEOUT_MS, signal });
  if (end.kind === "failed") return { kind: "bad", why: `it does not run: ${end.why}` };
  const version = parseVersion(end.stdout);
  if (end.code !== 0 || version === undefined) {
    return { kind: "bad", why: `it is not a nats-server: --version ended with code ${end.code}` };
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
