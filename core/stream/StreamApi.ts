/** The stream methods of `Agent`. The streams themselves are made with the first that is opened. */
import { checkOptions } from "../errors/checkOptions.ts";
import type { ConnectionMessage } from "../connection/Connection.ts";
import type { BroadcastOptions, DurableStream, DurableStreamOptions } from "./DurableStream.ts";
import type { KeptMessages } from "./KeptMessages.ts";
import { keepMsOf, StoredStream } from "./StoredStream.ts";
import type { Streams } from "./Streams.ts";

const OPTIONS: ReadonlySet<string> = new Set<keyof BroadcastOptions>(["without", "keep"]);

/** The runtime's streams and kept broadcasts. */
export interface StreamsKept {
  readonly streams: Streams;
  readonly kept: KeptMessages;
  /** The alarm of expiring data has fired. */
  expire(): void;
}

/** Its public methods are those of `Agent`, which documents them. */
export class StreamApi {
  readonly #keeping: StreamsKept;

  constructor(keeping: StreamsKept) {
    this.#keeping = keeping;
  }

  open<Chunk>(key: string, options?: DurableStreamOptions): DurableStream<Chunk> {
    return new StoredStream<Chunk>(this.#keeping.streams, key, options);
  }

  /** `send`: of a message that is not kept. */
  broadcast(
    message: ConnectionMessage,
    options: ReadonlyArray<string> | BroadcastOptions,
    send: (except: ReadonlyArray<string>) => void,
  ): void {
    if (isList(options)) return send(options);
    checkOptions("broadcast(message, …)", options, OPTIONS);
    const { without = [], keep } = options;
    if (keep === undefined) send(without);
    else this.#keeping.kept.broadcast(message, without, keepMsOf(keep, "keep of broadcast"));
  }

  expire(): void {
    this.#keeping.expire();
  }
}

const isList = (options: object): options is ReadonlyArray<string> => Array.isArray(options);
