/**
 * Answers to calls that are too large for a message, in the blob store. A caller removes the one
 * that it has read (`CallClient`). What is still there after some minutes is removed here: its
 * caller is gone, or has a login that only reads.
 */
import { ANSWER_BLOBS } from "../../schemas/bus/CallReply.ts";
import type { BlobsShape } from "../journal/Blobs.ts";
import type { TimeShape } from "../time/Time.ts";

/** Longer than a caller takes to read one. */
const KEPT_MS = 300_000;

export class LargeAnswers {
  private readonly services: {
    readonly blobs: Pick<BlobsShape, "put" | "remove">;
    readonly time: Pick<TimeShape, "after" | "id">;
  };
  /** Each cancels a removal. */
  private readonly removals = new Set<() => void>();

  constructor(services: LargeAnswers["services"]) {
    this.services = services;
  }

  /** Resolves to the blob's name. Rejects with `BrokerUnavailable`. */
  async put(bytes: Uint8Array): Promise<string> {
    const { blobs, time } = this.services;
    const blob = `${ANSWER_BLOBS}${time.id()}`;
    await blobs.put(blob, bytes);
    const cancel = time.after(KEPT_MS, () => {
      this.removals.delete(cancel);
      // A blob that stays behind only costs space.
      blobs.remove(blob).catch(() => undefined);
    });
    this.removals.add(cancel);
    return blob;
  }

  end(): void {
    for (const cancel of this.removals) cancel();
    this.removals.clear();
  }
}
