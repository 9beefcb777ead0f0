/**
 * Small parts of a call for `AgentClient`: its id, its options in the two accepted forms, and what
 * is wrong with it. A server takes a frame of another form for a message of the app's, which nobody
 * answers.
 */
import { toHex } from "../../schemas/toHex.ts";
import type { CallOptions, StreamOptions } from "./clientTypes.ts";

/** In the older form the options are the stream's callbacks; the newer has them in `stream`. */
export function splitCallOptions(options: CallOptions | StreamOptions): CallOptions {
  const isBare = "onChunk" in options || "onDone" in options || "onError" in options;
  return isBare ? { stream: options } : (options as CallOptions);
}

/** The maximum of the server (`core/call/durableCall`). */
const KEY_CHARS_MAX = 255;

/**
 * Returns the call's options. Throws `TypeError` for a method, arguments or a key that a frame
 * can't have. JavaScript that passes a number as the key would otherwise have no key, and a call
 * that is sent again would run again.
 */
export function readCall(
  method: unknown,
  args: unknown,
  how: CallOptions | StreamOptions,
): CallOptions {
  if (typeof method !== "string")
    throw new TypeError(
      `call: the method must be its name, not ${kindOf(method)}: call("method", [ … ])`,
    );
  if (!Array.isArray(args))
    throw new TypeError(`The arguments of ${method} must be an array: call("${method}", [ … ])`);
  const options = splitCallOptions(how);
  const key: unknown = options.key;
  if (key !== undefined && !isKey(key))
    throw new TypeError(
      `The key of a call must be text of 1 to ${KEY_CHARS_MAX} characters, not ${kindOf(key)}`,
    );
  return options;
}

/** Throws `TypeError` for what is no key of a durable stream. */
export function checkStreamKey(key: unknown): void {
  if (typeof key !== "string")
    throw new TypeError(
      `follow: the key of the stream must be text, not ${kindOf(key)}: follow("key", { onChunk })`,
    );
}

const isKey = (value: unknown): boolean =>
  typeof value === "string" && value !== "" && value.length <= KEY_CHARS_MAX;

const kindOf = (value: unknown): string =>
  typeof value === "string" ? `one of ${value.length}` : value === null ? "null" : typeof value;

/** `crypto.randomUUID` exists only in secure contexts, which a page served by plain HTTP is not. */
export function randomId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}
