/**
 * What a method marked `@callable({ streaming: true })` gets as its first argument: chunks now, an
 * end or an error once (`protocol.md` §2.4). The runtime makes it; each frame passes the output
 * gate.
 */
import type { RpcReply } from "../connection/protocol.ts";

/** How its frames reach the caller. */
export interface StreamOutlet {
  readonly reply: (reply: RpcReply) => void;
  /** Is the caller's connection still there? */
  readonly isOpen: () => boolean;
}

export class StreamingResponse<Chunk = unknown, Final = Chunk> {
  readonly #outlet: StreamOutlet;
  #ended = false;

  /** Made by the runtime only. */
  constructor(outlet: StreamOutlet) {
    this.#outlet = outlet;
  }

  /** True after `end` or `error`, and when the caller's connection has closed. */
  get isClosed(): boolean {
    return this.#ended || !this.#outlet.isOpen();
  }

  /**
   * Sends one chunk. False, and nothing is sent, when it is closed. Throws for what JSON can't
   * carry.
   */
  send(chunk: Chunk): boolean {
    if (this.isClosed) return false;
    this.#outlet.reply({ success: true, result: chunk, done: false });
    return true;
  }

  /** Ends the stream, with a final chunk if given: what the caller's promise resolves to. */
  end(finalChunk?: Final): boolean {
    if (this.isClosed) return false;
    this.#outlet.reply({ success: true, result: finalChunk, done: true });
    this.#ended = true;
    return true;
  }

  /** Ends the stream as failed: the caller's promise rejects with this text. */
  error(message: string): boolean {
    if (this.isClosed) return false;
    this.#outlet.reply({ success: false, error: message });
    this.#ended = true;
    return true;
  }
}
