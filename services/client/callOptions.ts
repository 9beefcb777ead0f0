/** Small parts of a call for `AgentClient`: its id, and its options in the two accepted forms. */
import { toHex } from "../../schemas/toHex.ts";
import type { CallOptions, StreamOptions } from "./clientTypes.ts";

/**
 * In the older form the options are the stream's callbacks; the newer one has them under `stream`.
 */
export function splitCallOptions(options: CallOptions | StreamOptions): CallOptions {
  const isBare = "onChunk" in options || "onDone" in options || "onError" in options;
  return isBare ? { stream: options } : (options as CallOptions);
}

/** `crypto.randomUUID` exists only in secure contexts, which a page served by plain HTTP is not. */
export function randomId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}
