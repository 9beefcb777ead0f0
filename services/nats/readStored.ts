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
import { CorruptFrame } from "../../schemas/Frame.ts";
import type { BackupEntry } from "../../schemas/BackupFile.ts";
import { findClaimCheck, resolveClaimCheck } from "./layout/claimCheck.ts";
import { unavailable } from "./client/JetStreamApi.ts";
import type { NatsShape } from "./client/Nats.ts";

/** Yields in stored order within each stream. Rejects with `BrokerUnavailable`. */
export async function* readStored(
  nats: NatsShape,
  blobs: BlobsShape,
  what: "inbox" | "journal",
): AsyncGenerator<BackupEntry, void, void> {
  const { subjects, api, reader } = nats;
  const subject = what === "inbox" ? `${subjects.namespace}.inbox.>` : subjects.journals();
  try {
    for (const stream of subjects.streamsOf(what)) {
      interface Info {
        readonly state: { readonly last_seq: number };
      }
      const { state } = await api.call<Info>(`STREAM.INFO.${stream}`);
      const range = { fromSeq: 1, toSeq: state.last_seq };
      for await (const { subject: at, seq, storedMs, data: stored } of reader.messages(
        stream,
        subject,
        range,
      )) {
        const data = await bytesOf(blobs, stored);
        // An input that was processed since it was read is in the journal, and its body is gone.
        const isDone =
          data === stored &&
          findClaimCheck(stored) !== undefined &&
          what === "inbox" &&
          (await reader.byLeader(stream, { seq })) === undefined;
        if (!isDone) yield { id: subjects.addressOf(at), seq, storedMs, data };
      }
    }
  } catch (error) {
    throw unavailable(error);
  }
}

async function bytesOf(blobs: BlobsShape, data: Uint8Array): Promise<Uint8Array> {
  try {
    return await resolveClaimCheck(blobs, data);
  } catch (error) {
    if (error instanceof CorruptFrame) return data;
    throw error;
  }
}
