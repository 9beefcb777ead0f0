/**
 * The largest message that a client has sent on a connection. A server that closes with 1009
 * (message too large) does not say which message it was, and handles none that follows it. The
 * largest is therefore one that the server did not handle.
 */

/** The WebSocket standard's "message too big". */
const MESSAGE_TOO_LARGE = 1009;
/** The most bytes of UTF-8 for one UTF-16 code unit. */
const BYTES_PER_UNIT_MAX = 3;

const encoder = new TextEncoder();

export class LargestSent {
  #bytes = 0;
  #text: string | undefined;
  #isOpen = false;

  /** Called with each message, also with one that waits for the next connection. */
  add(message: string | ArrayBufferLike | ArrayBufferView | Blob): void {
    if (typeof message === "string") {
      if (message.length * BYTES_PER_UNIT_MAX <= this.#bytes) return;
      const bytes = encoder.encode(message).byteLength;
      if (bytes > this.#bytes) [this.#bytes, this.#text] = [bytes, message];
      return;
    }
    const bytes = "size" in message ? message.size : message.byteLength;
    if (bytes > this.#bytes) [this.#bytes, this.#text] = [bytes, undefined];
  }

  opened(): void {
    this.#isOpen = true;
  }

  /**
   * Called at each close. Returns the text that the server refused as too large; undefined if it
   * closed for another reason, or refused bytes.
   */
  closed({ code }: { readonly code: number }): string | undefined {
    // What was sent before the first connection still waits.
    if (!this.#isOpen) return undefined;
    const text = this.#text;
    this.#isOpen = false;
    this.#bytes = 0;
    this.#text = undefined;
    return code === MESSAGE_TOO_LARGE ? text : undefined;
  }
}

/** Whether a refused text is a frame of `setState`. */
export const isStateFrame = (text: string): boolean => text.startsWith('{"type":"cf_agent_state"');
