/**
 * Claim checks: a message past the broker's payload limit goes to the blob store, and a small frame
 * `{"claim":{"blob":name,"bytes":n}}` takes its place in the stream. Readers of the adapters get
 * the bytes back and never see a claim.
 *
 * Used by `NatsJournal`, `NatsInbox`, `NatsSnapshots`, `NatsDeadLetters`, each under a prefix of its own, followed by the agent's address,
 * so that erasing an agent finds its blobs.
 */
import { randomUUID } from "node:crypto";
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import { encodeToken, type AgentId } from "../../schemas/Address.ts";
import { CorruptFrame, decodeFrame, encodeFrame, FRAME_VERSION } from "../../schemas/Frame.ts";

/** What a claim's blob belongs to; each an own prefix of blob names. */
export const CLAIM_AREAS = ["journal", "inbox", "snapshot", "dead"] as const;
export type ClaimArea = (typeof CLAIM_AREAS)[number];

export interface Claim {
  readonly blob: string;
  readonly bytes: number;
}

/** `journal/<class token>/<name token>/`: what all blobs of an agent's journal start with. */
export const claimPrefix = (area: ClaimArea, id: AgentId): string =>
  `${area}/${encodeToken(id.class)}/${encodeToken(id.name)}/`;

/** A new claim for these bytes; store the blob first, then the frame. */
export function newClaimCheck(
  area: ClaimArea,
  id: AgentId,
  data: Uint8Array,
): { readonly claim: Claim; readonly frame: Uint8Array } {
  const claim = { blob: claimPrefix(area, id) + randomUUID(), bytes: data.length };
  return { claim, frame: encodeFrame({ claim }) };
}

const encoder = new TextEncoder();
/** Of a claim's frame, on either side of the eight digits of its checksum. */
const START = encoder.encode(`{"v":${FRAME_VERSION},"crc":"`);
const KEY_AT = START.length + 8;
const KEY = encoder.encode(`","claim":`);

/** The claim in these bytes, or undefined when they are a message of their own. Throws `CorruptFrame`. */
export function readClaimCheck(data: Uint8Array): Claim | undefined {
  if (data.length < KEY_AT + KEY.length) return undefined;
  for (let i = 0; i < KEY.length; i++) if (data[KEY_AT + i] !== KEY[i]) return undefined;
  for (let i = 0; i < START.length; i++) if (data[i] !== START[i]) return undefined;
  return decodeFrame(data).head["claim"] as Claim;
}

/** As `readClaimCheck`; undefined also for a damaged one: nobody knows which blob was its. */
export function claimIn(data: Uint8Array): Claim | undefined {
  try {
    return readClaimCheck(data);
  } catch (error) {
    if (error instanceof CorruptFrame) return undefined;
    throw error;
  }
}

/** The bytes that a message stands for. Rejects with `BrokerUnavailable` or `CorruptFrame`. */
export async function resolveClaimCheck(blobs: BlobsShape, data: Uint8Array): Promise<Uint8Array> {
  const claim = readClaimCheck(data);
  if (claim === undefined) return data;
  const bytes = await blobs.get(claim.blob);
  if (bytes === undefined || bytes.length !== claim.bytes)
    throw new CorruptFrame({
      message: `the blob ${claim.blob} of ${claim.bytes} bytes ${bytes === undefined ? "is gone" : `has ${bytes.length}`}`,
    });
  return bytes;
}
