/**
 * Reads all messages in the inboxes or the journals of an installation, stream by stream, for
 * `agents backup`. A stream is read up to its end at the start of the reading, so the reading ends
 * although others write.
 *
 * The bytes of claim checks are fetched. Where a blob is lost, the claim check itself is returned.
 * It decodes neither as an input nor as an event, so a reader of the backup finds the same damage
 * as a reader of the original.
 */
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import type { BackupEntry, JournalStream } from "../../schemas/BackupFile.ts";
import { findClaimCheck, resolveOrKeep } from "./layout/claimCheck.ts";
import { unavailable } from "./client/JetStreamApi.ts";
import type { NatsShape } from "./client/Nats.ts";
import { readAddress } from "./readAddress.ts";

type What = "inbox" | "journal";

/**
 * The server looks up each message of a narrower filter in an index, a fifth of what reading costs
 * it. A journal's stream has nothing but events; the inbox of an old release has timers, too.
 */
const EVERYTHING = ">";

/** Yields in stored order within each stream. Rejects with `BrokerUnavailable`. */
export async function* readStored(
  nats: NatsShape,
  blobs: BlobsShape,
  what: What,
): AsyncGenerator<BackupEntry, void, void> {
  for (const [group, { end }] of (await streamsOf(nats, what)).entries())
    yield* readRange(nats, blobs, { what, group, fromSeq: 1, toSeq: end });
}

/** Each stream with the sequence of its last message. Rejects with `BrokerUnavailable`. */
export async function streamsOf(
  { subjects, api }: NatsShape,
  what: What,
): Promise<ReadonlyArray<JournalStream>> {
  interface Info {
    readonly created: string;
    readonly state: { readonly last_seq: number };
  }
  try {
    const infos = subjects.streamsOf(what).map((stream) => api.call<Info>(`STREAM.INFO.${stream}`));
    return (await Promise.all(infos)).map(({ created, state }) => ({
      created,
      end: state.last_seq,
    }));
  } catch (error) {
    throw unavailable(error);
  }
}

/** The messages of one stream, in stored order. Rejects with `BrokerUnavailable`. */
export async function* readRange(
  nats: NatsShape,
  blobs: BlobsShape,
  at: {
    readonly what: What;
    readonly group: number;
    readonly fromSeq: number;
    readonly toSeq: number;
  },
): AsyncGenerator<BackupEntry, void, void> {
  const { subjects, reader } = nats;
  const { what, group, fromSeq, toSeq } = at;
  const stream = subjects.streamOf(what, group);
  const subject = what === "inbox" ? `${subjects.namespace}.inbox.>` : EVERYTHING;
  try {
    for await (const batch of reader.batches(stream, subject, { fromSeq, toSeq }))
      for (const { subject: on, seq, storedMs, data: stored } of batch) {
        const isCheck = findClaimCheck(stored) !== undefined;
        const data = isCheck ? await resolveOrKeep(blobs, stored) : stored;
        // An input that was done since it was read is in the journal; an event that was trimmed
        // since is named by the next one. Their bodies are gone.
        const isGone =
          isCheck && data === stored && (await reader.byLeader(stream, { seq })) === undefined;
        const id = isGone ? undefined : readAddress(nats, on);
        if (id !== undefined) yield { id, seq, storedMs, data };
      }
  } catch (error) {
    throw unavailable(error);
  }
}
