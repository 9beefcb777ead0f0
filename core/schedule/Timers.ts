/**
 * The timer port: an envelope that arrives in an agent's inbox at a given time, whichever processes
 * run then.
 *
 * 1. Never early; at most a few hundred milliseconds late while the broker is up.
 * 2. One timer for each name: arming it again replaces it, disarming an unknown one does nothing.
 * 3. It fires into the inbox, where it is an input like any other. After a failure it may fire
 *    twice.
 *
 * Adapters: `services/nats/NatsTimers` (scheduled messages), `services/memory/MemoryTimers`.
 */
import * as Context from "effect/Context";
import type { AgentId } from "../../schemas/Address.ts";

export interface TimersShape {
  /** Stored when it resolves. A past time fires at once. Rejects with `BrokerUnavailable`. */
  readonly arm: (id: AgentId, name: string, atMs: number, envelope: Uint8Array) => Promise<void>;
  /** Best effort: a timer that still fires is stale, and its reader drops it. */
  readonly disarm: (id: AgentId, name: string) => Promise<void>;
}

export class Timers extends Context.Service<Timers, TimersShape>()("agents/core/schedule/Timers") {}
