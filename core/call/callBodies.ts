/**
 * Bodies of calls and answers past the bus's limit, which go by the blob store. `CallClient`
 * encodes calls and reads answers with it; `LargeAnswers` is the host's side.
 */
import { CALL_BLOBS, type Call } from "../../schemas/bus/Call.ts";
import { ANSWER_BLOBS, type CallReply } from "../../schemas/bus/CallReply.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import type { BusShape } from "../bus/Bus.ts";
import type { BlobsShape } from "../journal/Blobs.ts";
import type { TimeShape } from "../time/Time.ts";
import { AgentUnreachable } from "./AgentUnreachable.ts";

export interface EncodedCall {
  readonly call: Call;
  readonly body: Uint8Array | undefined;
  readonly data: Uint8Array;
  /** The blob with the body, which the caller removes after the call. Undefined: there is none. */
  readonly blob?: string;
}

/** More than `suspect` adds to a call. */
const SUSPECT_BYTES = 32;

/** Rejects with `RangeError` for a call that is too large and may have no blob. */
export async function encodeCall(
  {
    bus,
    blobs,
    time,
  }: {
    readonly bus: Pick<BusShape, "payloadBytesMax">;
    readonly blobs: BlobsShape;
    readonly time: Pick<TimeShape, "id">;
  },
  call: Call,
  body: Uint8Array | undefined,
): Promise<EncodedCall> {
  const data = encodeMessage(call, body);
  if (data.length + SUSPECT_BYTES <= bus.payloadBytesMax) return { call, body, data };
  if (!mayHaveBlob(call) || body === undefined)
    throw new RangeError(
      `A ${call.kind} of ${data.length} bytes is too large: the broker's limit is ${bus.payloadBytesMax}`,
    );
  const blob = `${CALL_BLOBS}${time.id()}`;
  await blobs.put(blob, body);
  const short = { ...call, blob };
  return { call: short, body: undefined, data: encodeMessage(short), blob };
}

/** The body is in the blob store, and not in the message. */
export const hasBlob = (call: Call): boolean => "blob" in call && call.blob !== undefined;

/** The body of a call. Rejects if its blob is gone. */
export async function wholeCall(
  blobs: Pick<BlobsShape, "get">,
  call: Call,
  body: Uint8Array,
): Promise<Uint8Array> {
  const blob = "blob" in call ? call.blob : undefined;
  if (blob === undefined) return body;
  // Callers may be gateways, which may not read what agents have stored.
  if (!blob.startsWith(CALL_BLOBS))
    throw new Error("a call refers to a blob that does not contain the body of a call");
  const whole = await blobs.get(blob);
  if (whole === undefined) throw new Error("the body of a call is gone");
  return whole;
}

/** The body of an answer. Rejects with `AgentUnreachable` if its blob is gone. */
export async function wholeBody(
  blobs: BlobsShape,
  reply: CallReply,
  body: Uint8Array,
): Promise<Uint8Array> {
  if (!("blob" in reply) || reply.kind === "done" || reply.blob === undefined) return body;
  if (!reply.blob.startsWith(ANSWER_BLOBS))
    throw new AgentUnreachable({
      message: "the answer refers to a blob that does not contain an answer",
    });
  const whole = await blobs.get(reply.blob);
  if (whole === undefined) throw new AgentUnreachable({ message: "the answer's body is gone" });
  // A blob that stays behind only costs space.
  void blobs.remove(reply.blob).catch(() => undefined);
  return whole;
}

type WithBlob = Extract<Call, { readonly blob?: string }>;
const mayHaveBlob = (call: Call): call is WithBlob =>
  call.kind === "fetch" || call.kind === "message" || call.kind === "restore";
