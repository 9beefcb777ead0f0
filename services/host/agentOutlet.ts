/** Where agents' outputs leave the host: frames to gateways, committed states to whoever listens. */
import { encodeMessage } from "../../schemas/Call.ts";
import type { AgentOutlet } from "../../core/turn/ActiveAgent.ts";
import type { HostServices } from "./HostServices.ts";

const encoder = new TextEncoder();

export function agentOutlet({ bus, config, log }: HostServices): AgentOutlet {
  const { subjects } = config;
  return {
    toGateway: (gateway, message, body) => {
      const data = encodeMessage(message, body);
      if (data.length > bus.payloadBytesMax) {
        log.error("a frame is larger than the broker's payload limit; it was not sent", {
          bytes: data.length,
          limit: bus.payloadBytesMax,
        });
        return;
      }
      bus.publish(subjects.gateway(gateway, "frame"), data);
    },
    publishState: (id, seq, timeMs, state) => {
      const data = encoder.encode(stateMessage(id, seq, timeMs, state));
      // Followers of a state this large read it by `agents state`; the log would not help them.
      if (data.length <= bus.payloadBytesMax) bus.publish(subjects.state(id), data);
    },
  };
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
