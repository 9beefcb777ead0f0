/**
 * The first argument of a method marked `@callable({ streaming: true })`: sends chunks, then one
 * end or one error (`protocol.md` §2.4), or answers with a durable stream. The runtime makes it;
 * each frame passes the output gate.
 */
import type { RpcReply } from "../connection/protocol.ts";

/** Carries the frames to the caller. */
interface StreamOutlet {
  readonly reply: (reply: RpcReply) => void;
  /** Whether the caller's connection is still open. */
  readonly isOpen: () => boolean;
  /** Answers with the durable stream of this key. */
  readonly read: (key: string) => void;
}

/** The stream to one caller. Chunks and the end are JSON. */
export class StreamingResponse<Chunk = unknown, Final = Chunk> {
  readonly #outlet: StreamOutlet;
  #ended = false;

  /** Called by the runtime only. */
  constructor(outlet: StreamOutlet) {
    this.#outlet = outlet;
  }

  /** True after `end` or `error`, and when the caller has disconnected or cancelled the call. */
  get isClosed(): boolean {
    return this.#ended || !this.#outlet.isOpen();
  }

  /** Sends one chunk. False: it was closed. Throws `TypeError` for a value that is not JSON. */
  send(chunk: Chunk): boolean {
    if (this.isClosed) return false;
    this.#outlet.reply({ success: true, result: chunk, done: false });
    return true;
  }

  /** Ends the stream: the caller's promise resolves to the final chunk. False: it was closed. */
  end(finalChunk?: Final): boolean {
    if (this.isClosed) return false;
    this.#outlet.reply({ success: true, result: finalChunk, done: true });
    this.#ended = true;
    return true;
  }

  /**
   * Answers with a durable stream, from its first chunk to its end, including chunks written later.
   * A caller of `agents/client` that loses its connection continues where it left off. Returns
   * false when already closed.
   */
  follow(stream: { readonly key: string }): boolean {
    if (this.isClosed) return false;
    this.#ended = true;
    this.#outlet.read(stream.key);
    return true;
  }

  /** Fails the stream: the caller's promise rejects with this text. False: it was closed. */
  error(message: string): boolean {
    if (this.isClosed) return false;
    this.#outlet.reply({ success: false, error: message });
    this.#ended = true;
    return true;
  }
}
