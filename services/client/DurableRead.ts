/**
 * One read of a durable stream over any number of connections. Tracks its place, accepts the chunks
 * that follow it, and detects lost and repeated ones. Pure. `PendingCalls` has one for each call
 * that such a stream answers.
 */
import type { StreamPart } from "./serverFrame.ts";

/** The result of applying a part. */
type Taken =
  | {
      readonly _tag: "Chunks";
      /** Earlier chunks belong to another stream. */
      readonly restarted: boolean;
      readonly chunks: ReadonlyArray<unknown>;
      /** The place after each of them. */
      readonly places: ReadonlyArray<string>;
    }
  /** A frame was lost: ask again from `place`. */
  | { readonly _tag: "Gap" };

export class DurableRead {
  readonly key: string;
  /** Id of the stream that the chunks so far belong to. */
  #stream: string | undefined;
  /** Number of the last accepted chunk. */
  #last = 0;

  constructor(key: string, since?: string) {
    this.key = key;
    if (since !== undefined) [this.#stream, this.#last] = readPlace(since);
  }

  /** The place as the server reads it; undefined means the start. */
  get place(): string | undefined {
    return this.#stream === undefined ? undefined : `${this.#stream}.${this.#last}`;
  }

  take({ seq, chunks, restart }: StreamPart): Taken {
    if (seq === undefined) return { _tag: "Chunks", restarted: false, chunks: [], places: [] };
    const [stream, last] = readPlace(seq);
    // A restored agent may have another stream under the same key.
    const isOther = restart || (this.#stream !== undefined && stream !== this.#stream);
    const hadAny = this.#last > 0;
    const before = isOther ? 0 : this.#last;
    const first = last - chunks.length + 1;
    // A frame without chunks states how many there are.
    if (first > before + 1) return { _tag: "Gap" };
    const fresh = chunks.slice(Math.max(0, before - first + 1));
    this.#stream = stream;
    this.#last = Math.max(before, last);
    const places = fresh.map((_, n) => `${stream}.${last - fresh.length + 1 + n}`);
    return { _tag: "Chunks", restarted: isOther && hadAny, chunks: fresh, places };
  }
}

function readPlace(place: string): [stream: string, last: number] {
  const at = place.lastIndexOf(".");
  return [place.slice(0, at), Number(place.slice(at + 1))];
}
