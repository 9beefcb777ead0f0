/**
 * The small parts of a call: its id, and its options in the two shapes in which callers give them.
 * `AgentClient` uses both.
 */
import { toHex } from "../../schemas/toHex.ts";
import type { CallOptions, StreamOptions } from "./clientTypes.ts";

/** The older shape is the stream's callbacks themselves; the newer one has them under `stream`. */
export function splitCallOptions(options: CallOptions | StreamOptions): CallOptions {
  const isBare = "onChunk" in options || "onDone" in options || "onError" in options;
  return isBare ? { stream: options } : (options as CallOptions);
}

/** `crypto.randomUUID` exists in secure contexts only; a page on a plain-http host lacks it. */
export function randomId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}
