/** Where agents' outputs leave the host: frames to gateways, committed states to whoever listens. */
import type { AgentId } from "../../schemas/Address.ts";
import { encodeMessage, type GatewayMessage } from "../../schemas/Call.ts";
import type { AgentOutlet } from "../../core/turn/AgentOutlet.ts";
import type { HostServices } from "./HostServices.ts";

/** Of one part, what its own head and the frame around it may take. */
const PART_HEAD_BYTES = 256;

/** Without an agent in memory. */
export const agentOutlet = (services: HostServices): AgentOutlet => ({
  toGateway: (gateway, message, body) => sendToGateway(services, gateway, message, body),
  publishState: (id, seq, timeMs, state) => publishState(services, id, seq, timeMs, state),
});

export function sendToGateway(
  { bus, config, time }: HostServices,
  gateway: string,
  message: GatewayMessage,
  body: Uint8Array | undefined,
): void {
  const data = encodeMessage(message, body);
  const subject = config.subjects.gateway(gateway, "frame");
  if (data.length <= bus.payloadBytesMax) return bus.publish(subject, data);
  const id = time.id();
  const step = bus.payloadBytesMax - PART_HEAD_BYTES;
  for (let at = 0; at < data.length; at += step) {
    const part: GatewayMessage = { op: "part", id, last: at + step >= data.length };
    bus.publish(subject, encodeMessage(part, data.subarray(at, at + step)));
  }
}

export function publishState(
  { bus, config }: HostServices,
  id: AgentId,
  seq: number,
  timeMs: number,
  state: string | undefined,
): void {
  // From the pool: `TextEncoder` makes memory of its own for each, which takes five times as long.
  const data = Buffer.from(stateMessage(id, seq, timeMs, state));
  // Followers of a state this large read it by `agents state`; the log would not help them.
  if (data.length <= bus.payloadBytesMax) bus.publish(config.subjects.state(id), data);
}

/** The message on a state subject, and the answer to a request there; `state` is JSON text. */
export const stateMessage = (
  id: { readonly class: string; readonly name: string },
  seq: number,
  timeMs: number,
  state: string | undefined,
): string =>
  `{"class":${JSON.stringify(id.class)},"name":${JSON.stringify(id.name)},"seq":${seq},"time":${timeMs}` +
  `${state === undefined ? "" : `,"state":${state}`}}`;
