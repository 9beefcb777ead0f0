/**
 * Encodes the answers to calls. A body that is too large for a message goes to the blob store. A
 * caller removes the one that it has read (`CallClient`). What is still there after some minutes is
 * removed here: its caller is gone, or has a login that only reads.
 */
import { ANSWER_BLOBS, type CallReply } from "../../schemas/bus/CallReply.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import type { BusShape } from "../bus/Bus.ts";
import type { BlobsShape } from "../journal/Blobs.ts";
import type { TimeShape } from "../time/Time.ts";
import type { CallAnswer } from "./CallAnswer.ts";
import { resultTooLarge } from "./remoteError.ts";

/** Longer than a caller takes to read one. */
const KEPT_MS = 300_000;

/** More than the name of a blob takes in a message. */
const BLOB_BYTES = 256;

const encoder = new TextEncoder();

export class LargeAnswers {
  private readonly services: {
    readonly bus: Pick<BusShape, "payloadBytesMax">;
    readonly blobs: Pick<BlobsShape, "put" | "remove">;
    readonly time: Pick<TimeShape, "after" | "id">;
  };
  /** Each cancels a removal. */
  private readonly removals = new Set<() => void>();

  constructor(services: LargeAnswers["services"]) {
    this.services = services;
  }

  /**
   * A `CallReply` message within the bus's limit. Large results that may have no blob become an
   * error, and so do responses whose headers alone are too large. Rejects with `BrokerUnavailable`.
   * Not `async`, to save a promise per call.
   */
  encode({ reply, body }: CallAnswer): Uint8Array | Promise<Uint8Array> {
    const { payloadBytesMax } = this.services.bus;
    const bytes = typeof body === "string" ? encoder.encode(body) : body;
    const data = encodeMessage(reply, bytes);
    if (data.length <= payloadBytesMax) return data;
    const isBodyLarge =
      bytes !== undefined && data.length - bytes.length < payloadBytesMax - BLOB_BYTES;
    return mayHaveBlob(reply) && isBodyLarge
      ? this.put(bytes).then((blob) => encodeMessage({ ...reply, blob }))
      : encodeMessage(resultTooLarge(data.length, payloadBytesMax));
  }

  end(): void {
    for (const cancel of this.removals) cancel();
    this.removals.clear();
  }

  /** Resolves to the blob's name. */
  private async put(bytes: Uint8Array): Promise<string> {
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
}

const mayHaveBlob = ({ kind }: CallReply): boolean =>
  kind === "response" || kind === "piece" || kind === "done" || kind === "forward";
