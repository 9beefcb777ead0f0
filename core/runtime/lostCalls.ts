/**
 * The calls of a socket's client that ran when its agent left memory: with its host, or in a stream
 * that was left open. Nobody answers them, and the socket stays open, so that whoever has the
 * socket next answers that they are lost.
 *
 * 1. A call that takes longer is noted in the socket's attachment, which its gateway keeps. Those
 *    that take less are not, because most do: if the host dies in that time, the client waits.
 * 2. A call with a key is not noted, since its client repeats it. One that a durable stream answers
 *    continues.
 * 3. A socket has a bounded number of notes. Clients of `agents/client` also ask (`rpc:lost`).
 */
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { CALL_LOST } from "../../schemas/rpcLost.ts";
import type { AgentOutlet } from "../turn/AgentOutlet.ts";
import { rpcFrame } from "../connection/protocol.ts";

const encoder = new TextEncoder();

/** Rule 1. As long as a turn's writes gather: a call that takes longer waits for something. */
export const LONG_CALL_MS = 50;
/** Rule 3: with the ids of usual clients, which are UUIDs, 4 KB in each attachment. */
const NOTES_MAX = 100;
const ID_LENGTH_MAX = 100;

/** Rule 3. */
export const isNotable = (id: string, noted: { readonly size: number }): boolean =>
  id.length <= ID_LENGTH_MAX && noted.size < NOTES_MAX;

/** Answers the calls that are noted. Returns the socket without the notes. */
export function refuseLost(info: SocketInfo, outlet: Pick<AgentOutlet, "toGateway">): SocketInfo {
  const { gateway, sid } = info;
  if (info.attachment?.calls === undefined) return info;
  const { calls, ...attachment } = info.attachment;
  const continuing = new Set(attachment.reads?.map(([id]) => id));
  for (const id of calls) {
    if (continuing.has(id)) continue;
    const frame = rpcFrame(id, { success: false, error: CALL_LOST });
    outlet.toGateway(gateway, { op: "send", sid, text: true }, encoder.encode(frame));
  }
  outlet.toGateway(gateway, { op: "attach", sid, attachment });
  return { ...info, attachment };
}
