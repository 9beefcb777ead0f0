/**
 * `this.stream(key)`: an answer that is kept while it is made. Its writer is a turn of the agent,
 * which resumes from the stored chunks when it runs again; its readers resume at their place, on
 * any host. Types only; `StoredStream` implements them.
 */

/** Options of `DurableStream.response`. */
export interface StreamResponseOptions {
  /** Headers of the response, beside its own. */
  readonly headers?: HeadersInit;
  /** Milliseconds that a stream which does not exist yet is waited for. Default 10,000. */
  readonly waitMs?: number;
}

/** Options of `broadcast`. */
export interface BroadcastOptions {
  /** Ids of connections that do not receive it. Default: none. */
  readonly without?: ReadonlyArray<string>;
  /**
   * How long it is kept for disconnected clients, in milliseconds or as text (`"1h"`): 1 second to
   * 30 days. Default: not at all.
   */
  readonly keep?: number | string;
}

/** Options of `this.stream`. They apply to the stream that is begun under the key. */
export interface DurableStreamOptions {
  /**
   * How long it is kept after its last write, in milliseconds or as text (`"1h"`, `"2 days"`): 1
   * second to 30 days. Default 1 hour.
   */
  readonly keep?: number | string;
  /** The most JSON characters of all its chunks, up to 16,777,216. Default 1,048,576. */
  readonly sizeMax?: number;
}

/** A stream of chunks, which are JSON values; `Chunk` is their type. */
export interface DurableStream<Chunk = string> {
  /** The key that it was asked for by. */
  readonly key: string;
  /** `absent` before the first write, and once it was removed or its time is over. */
  readonly status: "absent" | "open" | "ended" | "failed";
  /** It has ended or failed: nothing can be written to it. */
  readonly isOver: boolean;
  /** Number of its last chunk; they count from 1. 0: nothing was written yet. */
  readonly sequence: number;
  /** Its string chunks, joined: the text that a model's answer continues. */
  readonly text: string;
  /** Its result; undefined if it has none. */
  readonly result: unknown;
  /** Why it failed; undefined if it has not. */
  readonly error: string | undefined;
  /** Its chunks after this number; all by default. */
  chunks(after?: number): Chunk[];
  /** Begins it without a chunk, so that readers find it. Throws `StreamOver` when it is over. */
  begin(): void;
  /**
   * Appends one chunk: JSON of at most 65,536 characters. Returns its number. It is stored, and
   * then sent to readers, within 100 ms, at the latest with the end of the turn. Throws `TypeError`
   * for what is not JSON, `RangeError` for a chunk that is too large, and `StreamTooLarge`,
   * `StreamOver`, `TooManyStreams` or `JournalRateExceeded`; nothing has changed then.
   */
  write(chunk: Chunk): number;
  /**
   * Ends it: readers receive `result` (JSON of at most 65,536 characters), and are done. False
   * when it was over already; nothing has changed then.
   */
  end(result?: unknown): boolean;
  /** Fails it: readers receive the message and end. False: it was over already. */
  fail(message: string): boolean;
  /** Removes it with its chunks. False when there was none. A later write begins a new one. */
  remove(): boolean;
  /**
   * Answers an HTTP request with the stream as server-sent events, from where the reader was by its
   * `Last-Event-ID` header or its parameter `since`, to its end. Resolves to 404 when it does not
   * exist within `waitMs`, to 204 for a reader that has all of an ended one, and to 400 for a place
   * that can't be read.
   */
  response(
    request: Pick<Request, "url" | "headers">,
    options?: StreamResponseOptions,
  ): Promise<Response>;
}
