/**
 * The part of `Agent` for durable streams: answers that are kept while they are made. Between
 * `AgentFibers` and `AgentSubAgents` in the chain of classes; `core/stream/Streams` keeps them.
 */
import type { Connection } from "../connection/Connection.ts";
import { DurableStream, type DurableStreamOptions } from "../stream/DurableStream.ts";
import { runtimeOf } from "./AgentContext.ts";
import { AgentFibers } from "./AgentFibers.ts";

/** See `Agent`. */
export class AgentStreams extends AgentFibers {
  /**
   * The durable stream with this key (1 to 256 characters). The first write begins it. A turn that
   * runs again finds what it wrote, and goes on from there. `Chunk` is the type of its chunks,
   * which are JSON. Throws `TypeError` for a bad key, and `TypeError` or `RangeError` for bad
   * options.
   */
  stream<Chunk = string>(key: string, options?: DurableStreamOptions): DurableStream<Chunk> {
    return new DurableStream<Chunk>(runtimeOf(this.ctx).keeping.streams, key, options);
  }

  /** For the runtime: the alarm of what is kept for a time (`ExpiryAlarm`). */
  _expireKept(): void {
    runtimeOf(this.ctx).keeping.streams.expire();
  }

  // A hook, for subclasses.

  /**
   * Hook: whether a client may read the durable stream with this key over its socket. Called when
   * it asks, not for streams that a method answers with. Default true.
   */
  shouldConnectionReadStream(_connection: Connection, _key: string): boolean | Promise<boolean> {
    return true;
  }
}
