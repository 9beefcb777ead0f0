/**
 * The messages between gateways and hosts over the bus (core NATS). Each message is a `Frame` whose
 * head is JSON: a `Call` and its `CallReply`, a `GatewayMessage`, or an answer to a durable input
 * (`InputAnswer`).
 *
 * Their types are not decoded by schema: both ends are processes of this release, `Frame` has
 * checked version and checksum, and the socket relay is a hot path.
 */
import { decodeFrame, encodeFrame } from "../Frame.ts";

export type HeaderPairs = ReadonlyArray<readonly [string, string]>;

/** Every host's answer on `Subjects.erasure`: its local files of the agent are deleted. */
export type ErasureReply = { readonly host: string };

export const encodeMessage = <A extends object>(head: A, body?: Uint8Array): Uint8Array =>
  encodeFrame(head, body);

/** Trusts the head to be an `A` (see the header). Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeMessage<A>(bytes: Uint8Array): {
  readonly head: A;
  readonly body: Uint8Array;
} {
  const frame = decodeFrame(bytes);
  return { head: frame.head as A, body: frame.body };
}
