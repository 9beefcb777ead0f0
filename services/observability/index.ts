/**
 * `agents/observability`: the default `observability` of every agent, on Node's `diagnostics_channel`, and
 * the way to listen to it. Channels are named `agents:<key>`; their events are in `protocol.md` §10.
 */
import { channel, subscribe as listen, unsubscribe } from "node:diagnostics_channel";
import {
  channelOf,
  type Observability,
  type ObservabilityEvent,
} from "../../core/telemetry/observability.ts";

/** Publishes each event to the channel of its type. Costs next to nothing while nobody listens. */
export const genericObservability: Observability = {
  emit: (event) => {
    const to = channel(nameOf(channelOf(event.type)));
    if (to.hasSubscribers) to.publish(event);
  },
};

export type ObservabilityKey =
  "state" | "rpc" | "schedule" | "lifecycle" | "workflow" | "email" | "mcp" | "webhook" | "fiber";

/** Calls `callback` with each event of a channel, in this process. Returns the function that stops it. */
export function subscribe(
  key: ObservabilityKey,
  callback: (event: ObservabilityEvent) => void,
): () => void {
  const receive = (message: unknown): void => callback(message as ObservabilityEvent);
  listen(nameOf(key), receive);
  return () => unsubscribe(nameOf(key), receive);
}

const nameOf = (key: string): string =>
  `agents:${key.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase())}`;

export type { Observability, ObservabilityEvent };
