/**
 * Resolves the claim check of an event, for `NatsJournal` and `NatsJournalFeed`. Trimming and
 * erasing remove an event's blob after the event, so a reader that had read the event before may
 * find its blob gone. That is an event that is no longer stored, and not a damaged one.
 */
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { resolveClaimCheck } from "./layout/claimCheck.ts";
import type { NatsShape } from "./client/Nats.ts";
import type { StoredMessage } from "./client/StreamReading.ts";

/**
 * The bytes of the event; undefined if it was trimmed meanwhile. Rejects with `BrokerUnavailable`,
 * or `CorruptFrame` when the claim check is damaged or the blob of a stored event is lost.
 */
export async function untrimmed(
  nats: Pick<NatsShape, "reader">,
  blobs: BlobsShape,
  stream: string,
  { seq, data }: Pick<StoredMessage, "seq" | "data">,
): Promise<Uint8Array | undefined> {
  try {
    return await resolveClaimCheck(blobs, data);
  } catch (error) {
    const isGone =
      error instanceof CorruptFrame && (await nats.reader.byLeader(stream, { seq })) === undefined;
    if (isGone) return undefined;
    throw error;
  }
}
