/**
 * Everything that the inboxes and the journals of an installation hold, of all agents, stream after stream: for
 * `agents backup`. Each stream is read up to where it ends when its reading begins, so it ends although others write.
 *
 * What a claim stands for is fetched. Where that is lost the claim itself is given, which decodes as no input and no
 * event: whoever reads the copy finds the same damage as whoever reads the original.
 */
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import type { BackupEntry } from "../../schemas/BackupFile.ts";
import { claimIn, resolveClaimCheck } from "./claimCheck.ts";
import { unavailable } from "./JetStreamApi.ts";
import type { NatsShape } from "./Nats.ts";

/** Rejects with `BrokerUnavailable`. */
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
        // An input that was done since it was read is in the journal, and its body is gone.
        const isDone =
          data === stored &&
          claimIn(stored) !== undefined &&
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
