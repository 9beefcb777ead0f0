/**
 * The blob port: bytes too large for one message (claim checks). Names start with the agent's
 * address so that erasing an agent finds them. Adapters: `services/nats/NatsBlobs` (object store),
 * `services/memory/MemoryBlobs`.
 */
import * as Context from "effect/Context";

export interface BlobsShape {
  /** Replaces what the name held. Resolves once it is stored. Rejects with `BrokerUnavailable`. */
  readonly put: (name: string, data: Uint8Array) => Promise<void>;
  /** Undefined: none. Rejects with `BrokerUnavailable`, or `CorruptFrame` for another digest. */
  readonly get: (name: string) => Promise<Uint8Array | undefined>;
  readonly remove: (name: string) => Promise<void>;
}

export class Blobs extends Context.Service<Blobs, BlobsShape>()("agents/core/blob/Blobs") {}
