/**
 * Snapshots in a stream that keeps the last few of each subject, and bases in the same stream, on a
 * subject of their own. Snapshots of `DEFLATE_BYTES_MIN` and more are compressed here, inside a
 * frame `{"enc":"deflate","bytes":n}`; the stream itself is not compressed (`streamConfigs`). A
 * snapshot that is still past the payload limit becomes a claim check, whose blob is removed when
 * newer snapshots replace it.
 */
import { promisify } from "node:util";
import { deflate, inflate } from "node:zlib";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { Snapshots, SNAPSHOTS_KEPT, type SnapshotsShape } from "../../core/journal/Snapshots.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { decodeFrame, encodeFrame, FRAME_VERSION } from "../../schemas/Frame.ts";
import { WRONG_LAST_SEQUENCE } from "./client/AckPublisher.ts";
import {
  findClaimCheck,
  newClaimCheck,
  resolveClaimCheck,
  type ClaimCheck,
} from "./layout/claimCheck.ts";
import { orUnavailable, unavailable } from "./client/JetStreamApi.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { plain } from "./client/ReplyInbox.ts";
import type { StoredMessage } from "./client/StreamReading.ts";

/** A smaller snapshot is sent faster than it is compressed. */
const DEFLATE_BYTES_MIN = 32 * 1024;
/** The fastest. Database pages shrink to a third with it, and little more with the slowest. */
const DEFLATE_LEVEL = 1;
const deflated = promisify<Uint8Array, { level: number }, Buffer>(deflate);
const inflated = promisify<Uint8Array, { maxOutputLength: number }, Buffer>(inflate);

export function makeNatsSnapshots(nats: NatsShape, blobs: BlobsShape): SnapshotsShape {
  const { subjects } = nats;
  const kept = new KeptMessages(nats, blobs);
  return {
    put: (id, data) =>
      orUnavailable(async () => {
        const before = await kept.snapshots(id);
        await kept.store(id, data, { subject: subjects.snapshot(id), before });
      }),
    newestFirst: async function* (id) {
      try {
        const newest = await kept.newest(id);
        if (newest === undefined) return;
        const first = await unpack(blobs, newest.data);
        if (first !== undefined) yield first;
        for (const message of (await kept.snapshots(id)).toReversed()) {
          if (message.seq >= newest.seq) continue;
          const data = await unpack(blobs, message.data);
          if (data !== undefined) yield data;
        }
      } catch (error) {
        throw unavailable(error);
      }
    },
    bases: (id) =>
      orUnavailable(async () => {
        const found = await kept.bases(id);
        const newest = found.at(-1);
        if (newest === undefined) return undefined;
        const copies: Array<Uint8Array | undefined> = [];
        for (const { data } of found.toReversed()) copies.push(await unpack(blobs, data));
        return { revision: newest.seq, copies };
      }),
    putBase: (id, data, revision) =>
      orUnavailable(async () => {
        const before = await kept.bases(id);
        return await kept.store(id, data, {
          subject: subjects.base(id),
          before,
          expected: revision,
        });
      }),
    removeBases: (id, revision) => orUnavailable(() => kept.removeBases(id, revision)),
  };
}

/** The messages that the stream keeps of an agent's two subjects. */
class KeptMessages {
  constructor(
    private readonly nats: NatsShape,
    private readonly blobs: BlobsShape,
  ) {}

  /** Oldest first. */
  async snapshots(id: AgentId): Promise<StoredMessage[]> {
    const { reader, subjects } = this.nats;
    const found: StoredMessage[] = [];
    const all = reader.messages(this.streamOf(id), subjects.snapshot(id), { fromSeq: 1 });
    for await (const message of all) found.push(message);
    return found;
  }

  /** Any replica may answer. One that lags returns an older snapshot or none: a longer replay. */
  newest(id: AgentId): Promise<StoredMessage | undefined> {
    const query = { last_by_subj: this.nats.subjects.snapshot(id) };
    return this.nats.reader.direct(this.streamOf(id), query);
  }

  /** Oldest first, from the leader: a replica that lags may have those before the last trim. */
  async bases(id: AgentId): Promise<StoredMessage[]> {
    const found: StoredMessage[] = [];
    for (let seq = 1; ;) {
      const query = { seq, next_by_subj: this.nats.subjects.base(id) };
      const message = await this.nats.reader.byLeader(this.streamOf(id), query);
      if (message === undefined) return found;
      found.push(message);
      seq = message.seq + 1;
    }
  }

  async removeBases(id: AgentId, revision: number): Promise<void> {
    const found = (await this.bases(id)).filter(({ seq }) => seq <= revision);
    // One by one, which makes the server overwrite their bytes (`purgeAgent`).
    for (const { seq } of found)
      await this.nats.api.call(`STREAM.MSG.DELETE.${this.streamOf(id)}`, { seq });
    for (const check of claimChecksOf(found))
      if (check !== undefined) await this.blobs.remove(check.blob);
  }

  /**
   * Publishes to a subject that keeps the last two messages; `before`: its present ones. Resolves
   * to the message's sequence, or undefined when `expected` is not the last.
   */
  async store(
    id: AgentId,
    data: Uint8Array,
    { subject, before, expected }: StorePlace,
  ): Promise<number | undefined> {
    const { publisher, messageBytesMax } = this.nats;
    const packed = await pack(data);
    const checks = claimChecksOf(before);
    const big = packed.length > messageBytesMax ? newClaimCheck("snapshot", id, packed) : undefined;
    if (big !== undefined) await this.blobs.put(big.check.blob, packed);
    const message = big?.frame ?? packed;
    const outcome = await (expected === undefined
      ? publisher.publish(subject, message)
      : publisher.publishAfter(expected as Sequence, subject, message));
    // A blob that remains when a removal fails only takes up space.
    if (outcome._tag === "Refused" && outcome.code === WRONG_LAST_SEQUENCE) {
      if (big !== undefined) await this.blobs.remove(big.check.blob).catch(() => undefined);
      return undefined;
    }
    if (outcome._tag !== "Stored") throw new BrokerUnavailable({ message: outcome.message });
    for (const check of checks.slice(0, -(SNAPSHOTS_KEPT - 1)))
      if (check !== undefined) await this.blobs.remove(check.blob).catch(() => undefined);
    return outcome.seq;
  }

  private streamOf(id: AgentId): string {
    const { subjects } = this.nats;
    return subjects.streamOf("snapshots", subjects.groupOf(id));
  }
}

interface StorePlace {
  readonly subject: string;
  /** The messages of the subject, oldest first. */
  readonly before: readonly StoredMessage[];
  /** Undefined: whatever is there. */
  readonly expected?: number;
}

async function pack(data: Uint8Array): Promise<Uint8Array> {
  if (data.length < DEFLATE_BYTES_MIN) return data;
  const body = await deflated(data, { level: DEFLATE_LEVEL });
  return encodeFrame({ enc: "deflate", bytes: data.length }, body);
}

/** Returns undefined for a damaged snapshot; the one before it is used. */
async function unpack(blobs: BlobsShape, message: Uint8Array): Promise<Uint8Array | undefined> {
  try {
    const data = await resolveClaimCheck(blobs, message);
    if (!isPacked(data)) return data;
    const { head, body } = decodeFrame(data);
    return plain(await inflated(body, { maxOutputLength: Number(head["bytes"]) }));
  } catch (error) {
    if (error instanceof BrokerUnavailable) throw error;
    return undefined;
  }
}

const encoder = new TextEncoder();
const PACKED_AT = encoder.encode(`{"v":${FRAME_VERSION},"crc":"`).length + 8;
const PACKED = encoder.encode(`","enc":`);
const isPacked = (data: Uint8Array): boolean =>
  Buffer.compare(data.subarray(PACKED_AT, PACKED_AT + PACKED.length), PACKED) === 0;

/** One element per snapshot, oldest first; undefined for one without a blob, or a damaged one. */
const claimChecksOf = (messages: readonly StoredMessage[]): ReadonlyArray<ClaimCheck | undefined> =>
  messages.map(({ data }) => findClaimCheck(data));

export const layer: Layer.Layer<Snapshots, never, Nats | Blobs> = Layer.effect(
  Snapshots,
  Effect.gen(function* () {
    return makeNatsSnapshots(yield* Nats, yield* Blobs);
  }),
);
