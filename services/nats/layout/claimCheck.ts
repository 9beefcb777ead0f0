/**
 * Claim checks. The bytes of a message past the broker's payload limit are stored as a blob, and a
 * small frame `{"claim":{"blob":name,"bytes":n}}` takes the message's place in the stream. The
 * adapters return the original bytes; their callers never see a claim check.
 *
 * Used by `NatsJournal`, `NatsInbox`, `NatsSnapshots` and `NatsDeadLetters`. A blob's name begins
 * with a prefix of the adapter and the agent's address, so that erasing an agent finds its blobs.
 */
import { randomUUID } from "node:crypto";
import type { BlobsShape } from "../../../core/journal/Blobs.ts";
import { encodeToken, type AgentId } from "../../../schemas/Address.ts";
import { CorruptFrame, decodeFrame, encodeFrame, FRAME_VERSION } from "../../../schemas/Frame.ts";

/** The kinds of messages that a blob can stand for. Each is a prefix of blob names. */
export const CLAIM_CHECK_AREAS = ["journal", "inbox", "snapshot", "dead"] as const;
type ClaimCheckArea = (typeof CLAIM_CHECK_AREAS)[number];

export interface ClaimCheck {
  /** The blob's name. */
  readonly blob: string;
  readonly bytes: number;
}

/** The start of the names of an agent's blobs, as in `journal/<class token>/<name token>/`. */
export const claimCheckPrefix = (area: ClaimCheckArea, id: AgentId): string =>
  `${area}/${encodeToken(id.class)}/${encodeToken(id.name)}/`;

/** Makes a claim check for `data`. The caller stores `data` as the blob first, then the frame. */
export function newClaimCheck(
  area: ClaimCheckArea,
  id: AgentId,
  data: Uint8Array,
): { readonly check: ClaimCheck; readonly frame: Uint8Array } {
  const check = { blob: claimCheckPrefix(area, id) + randomUUID(), bytes: data.length };
  return { check, frame: encodeFrame({ claim: check }) };
}

const encoder = new TextEncoder();
/** The bytes of a claim check's frame on either side of the eight digits of its checksum. */
const START = encoder.encode(`{"v":${FRAME_VERSION},"crc":"`);
const KEY_AT = START.length + 8;
const KEY = encoder.encode(`","claim":`);

/**
 * Returns undefined for any other message. Throws `CorruptFrame` for a damaged claim check, and for
 * one that no release writes.
 */
export function readClaimCheck(data: Uint8Array): ClaimCheck | undefined {
  if (data.length < KEY_AT + KEY.length) return undefined;
  for (let i = 0; i < KEY.length; i++) if (data[KEY_AT + i] !== KEY[i]) return undefined;
  for (let i = 0; i < START.length; i++) if (data[i] !== START[i]) return undefined;
  const claim = decodeFrame(data).head["claim"] as Partial<ClaimCheck> | null;
  const { blob, bytes } = claim ?? {};
  if (typeof blob !== "string" || typeof bytes !== "number")
    throw new CorruptFrame({ message: "a claim check without the name and size of its blob" });
  return { blob, bytes };
}

/** As `readClaimCheck`, and undefined also for a damaged one, whose blob is unknown. */
export function findClaimCheck(data: Uint8Array): ClaimCheck | undefined {
  try {
    return readClaimCheck(data);
  } catch (error) {
    if (error instanceof CorruptFrame) return undefined;
    throw error;
  }
}

/**
 * Returns the bytes that a message stands for: those of its blob, or the message itself. Rejects
 * with `BrokerUnavailable`; with `CorruptFrame` when the claim check is damaged or its blob is
 * lost.
 */
export async function resolveClaimCheck(blobs: BlobsShape, data: Uint8Array): Promise<Uint8Array> {
  const check = readClaimCheck(data);
  if (check === undefined) return data;
  const bytes = await blobs.get(check.blob);
  if (bytes === undefined || bytes.length !== check.bytes)
    throw new CorruptFrame({
      message: `the blob ${check.blob} of ${check.bytes} bytes ${bytes === undefined ? "is gone" : `has ${bytes.length}`}`,
    });
  return bytes;
}

/**
 * As `resolveClaimCheck`, but returns the message itself where its bytes are lost. A claim check
 * decodes neither as an input nor as an event, so whoever reads it finds the damage.
 */
export async function resolveOrKeep(blobs: BlobsShape, data: Uint8Array): Promise<Uint8Array> {
  try {
    return await resolveClaimCheck(blobs, data);
  } catch (error) {
    if (error instanceof CorruptFrame) return data;
    throw error;
  }
}
