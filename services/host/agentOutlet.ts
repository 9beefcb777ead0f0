/**
 * Sends the outputs of agents from the host: frames to gateways, committed states to subscribers.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { GatewayMessage } from "../../schemas/bus/GatewayMessage.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import type { AgentOutlet } from "../../core/turn/AgentOutlet.ts";
import type { HostServices } from "./HostServices.ts";

/** Space in each part for its head and the frame around it. */
const PART_HEAD_BYTES = 256;

/** The outlet of a host, for use without an agent in memory. */
export const agentOutlet = (services: HostServices): AgentOutlet => ({
  toGateway: (gateway, message, body) => sendToGateway(services, gateway, message, body),
  publishState: (id, seq, timeMs, state) => publishState(services, id, seq, timeMs, state),
});

/** Sends a message to a gateway, in parts when it is larger than the broker's limit. */
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

/** Publishes a committed state as JSON, undefined for none, unless it is above the limit. */
export function publishState(
  { bus, config }: HostServices,
  id: AgentId,
  seq: number,
  timeMs: number,
  state: string | undefined,
): void {
  // From the buffer pool: `TextEncoder` allocates each time, which takes five times as long.
  const data = Buffer.from(stateMessage(id, seq, timeMs, state));
  // Subscribers read a state this large with `agents state`; a log line would not help them.
  if (data.length <= bus.payloadBytesMax) bus.publish(config.subjects.state(id), data);
}

/** The message on a state subject, and the reply to a request there. `state` is JSON text. */
export const stateMessage = (
  id: { readonly class: string; readonly name: string },
  seq: number,
  timeMs: number,
  state: string | undefined,
): string =>
  `{"class":${JSON.stringify(id.class)},"name":${JSON.stringify(id.name)},"seq":${seq},"time":${timeMs}` +
  `${state === undefined ? "" : `,"state":${state}`}}`;
