/**
 * Timers in memory. They run on the broker's clock, publish to its inbox, and outlive connections.
 */
import * as Layer from "effect/Layer";
import { Timers, type TimersShape } from "../../core/schedule/Timers.ts";
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryTimers(connection: MemoryConnection): TimersShape {
  const { broker } = connection;
  const nameOf = (id: AgentId, name: string): string => `${addressKey(id)}/${name}`;
  const cancel = (key: string): void => {
    broker.timers.get(key)?.();
    broker.timers.delete(key);
  };
  return {
    arm: async (id, name, atMs, envelope) => {
      await connection.operation("arm", addressKey(id));
      const key = nameOf(id, name);
      const data = envelope.slice();
      cancel(key);
      const fire = (): void => {
        broker.timers.delete(key);
        broker.inbox.publish(id, data);
      };
      broker.timers.set(key, broker.time.after(Math.max(0, atMs - broker.time.nowMs()), fire));
    },
    disarm: async (id, name) => {
      await connection.operation("disarm", addressKey(id));
      cancel(nameOf(id, name));
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<Timers> =>
  Layer.succeed(Timers, makeMemoryTimers(connection));
