/**
 * Loads uWebSockets.js, an optional dependency with a native binary per platform and Node version.
 * Not having it is an expected state (other platforms, Alpine, a newer Node, a team that may not
 * install it), so the outcome is a value that says why; httpServerLayer.ts falls back on it.
 *
 * The library reads its limit on request heads once, from the environment, when it is loaded; its
 * default of 4 KiB refuses ordinary cookies. It is raised here for the load alone; the limit that an
 * operator sets (`headerBytesMax`) is enforced by UwsServer.ts within it.
 */
import * as Data from "effect/Data";
import { createRequire } from "node:module";
import type * as uWS from "uWebSockets.js";

export type Uws = typeof uWS;

/** `message` is one line for the log: what is missing and what it costs. */
export class UwsUnavailable extends Data.TaggedError("UwsUnavailable")<{
  readonly reason: "notInstalled" | "noBinary";
  readonly message: string;
}> {}

const HEAD_VARIABLE = "UWS_HTTP_MAX_HEADERS_SIZE";

/** No server here can take larger heads than this, whatever `headerBytesMax` says. */
export const HEAD_BYTES_CEILING = 64 * 1024;

export const loadUws = (
  require: (name: string) => unknown = createRequire(import.meta.url),
): Uws | UwsUnavailable => {
  const before = process.env[HEAD_VARIABLE];
  process.env[HEAD_VARIABLE] = String(HEAD_BYTES_CEILING);
  try {
    return require("uWebSockets.js") as Uws;
  } catch (cause) {
    return explain(cause);
  } finally {
    if (before === undefined) delete process.env[HEAD_VARIABLE];
    else process.env[HEAD_VARIABLE] = before;
  }
};

const explain = (cause: unknown): UwsUnavailable => {
  const code = (cause as { readonly code?: unknown } | null)?.code;
  if (code === "MODULE_NOT_FOUND") {
    const message = "uWebSockets.js is not installed (npm install --include=optional)";
    return new UwsUnavailable({ reason: "notInstalled", message });
  }
  const { platform, arch, version } = process;
  const message = `uWebSockets.js has no binary that loads on ${platform} ${arch} with Node ${version}`;
  return new UwsUnavailable({ reason: "noBinary", message });
};
