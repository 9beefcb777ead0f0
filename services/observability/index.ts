/**
 * `agents/observability`: the default `observability` of every agent, on Node's
 * `diagnostics_channel`, and `subscribe` to listen to it. Channels are named `agents:<key>`;
 * `protocol.md` §10 lists their events.
 */
import { channel, subscribe as listen, unsubscribe, type Channel } from "node:diagnostics_channel";
import {
  channelOf,
  CHANNELS,
  type Observability,
  type ObservabilityEvent,
} from "../../core/telemetry/observability.ts";

/** The channels. Each carries the events whose type begins with its key. */
export type ObservabilityKey =
  "state" | "rpc" | "schedule" | "lifecycle" | "workflow" | "email" | "mcp" | "webhook" | "fiber";

/** The channels themselves, by their keys. */
export const channels = Object.fromEntries(
  CHANNELS.map((key) => [key, channel(nameOf(key))]),
) as Readonly<Record<ObservabilityKey, Channel>>;

/** Publishes each event to the channel of its type. Nearly free without subscribers. */
export const genericObservability: Observability = {
  emit: (event) => {
    const to = channels[channelOf(event.type)];
    if (to.hasSubscribers) to.publish(event);
  },
};

/**
 * Calls `callback` with each event of a channel that occurs in this process. Returns a function
 * that ends the subscription. An error of `callback` is an uncaught exception, as for every
 * `diagnostics_channel`.
 */
export function subscribe(
  key: ObservabilityKey,
  callback: (event: ObservabilityEvent) => void,
): () => void {
  const receive = (message: unknown): void => callback(message as ObservabilityEvent);
  listen(nameOf(key), receive);
  return () => unsubscribe(nameOf(key), receive);
}

function nameOf(key: string): string {
  return `agents:${key.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase())}`;
}

export type { Observability, ObservabilityEvent };
