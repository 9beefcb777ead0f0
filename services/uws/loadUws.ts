/**
 * Loads uWebSockets.js, an optional peer dependency with one native binary for each platform and
 * Node version. It is expected to be missing on other platforms, on Alpine, on a newer Node, or if
 * a team may not install it. The result is then a value with the reason, and httpServerLayer.ts
 * uses node:http instead.
 *
 * The library reads its limit on request heads from the environment once, when it is loaded. Its
 * default of 4 KiB refuses ordinary cookies, so the limit is raised during the load. Within it,
 * UwsServer.ts enforces the limit that an operator sets (`headerBytesMax`).
 */
import * as Data from "effect/Data";
import { createRequire } from "node:module";
import type * as uWS from "uWebSockets.js";

export type Uws = typeof uWS;

/** `message` is one line for the log. */
export class UwsUnavailable extends Data.TaggedError("UwsUnavailable")<{
  readonly reason: "notInstalled" | "noBinary";
  readonly message: string;
}> {}

const HEAD_VARIABLE = "UWS_HTTP_MAX_HEADERS_SIZE";

/** The largest head that any server of the process accepts, whatever its `headerBytesMax`. */
const HEAD_BYTES_CEILING = 64 * 1024;

/** Never throws. Tests pass another `require`. */
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
    const message = "uWebSockets.js is not installed (it is faster: docs/operations/install.md)";
    return new UwsUnavailable({ reason: "notInstalled", message });
  }
  const { platform, arch, version } = process;
  const message = `uWebSockets.js has no binary that loads on ${platform} ${arch} with Node ${version}`;
  return new UwsUnavailable({ reason: "noBinary", message });
};
