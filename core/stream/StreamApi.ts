/**
 * The stream methods of `Agent`. The streams themselves are made with the first that is opened.
 */
import type { DurableStream, DurableStreamOptions } from "./DurableStream.ts";
import { StoredStream } from "./StoredStream.ts";
import type { Streams } from "./Streams.ts";

/** Its public methods are those of `Agent`, which documents them. */
export class StreamApi {
  readonly #keeping: { readonly streams: Streams };

  constructor(keeping: { readonly streams: Streams }) {
    this.#keeping = keeping;
  }

  open<Chunk>(key: string, options?: DurableStreamOptions): DurableStream<Chunk> {
    return new StoredStream<Chunk>(this.#keeping.streams, key, options);
  }

  expire(): void {
    this.#keeping.streams.expire();
  }
}
