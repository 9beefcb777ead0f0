/** Dead letters in memory. */
import { Layer } from "effect";
import { DeadLetters, type DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import { addressKey } from "../../schemas/Address.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryDeadLetters(connection: MemoryConnection): DeadLettersShape {
  const { deadLetters } = connection.broker;
  return {
    put: async (id, data) => {
      await connection.operation("bury", addressKey(id));
      deadLetters.push(data.slice());
    },
    count: async () => {
      await connection.operation("countDead", "");
      return deadLetters.length;
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<DeadLetters> =>
  Layer.succeed(DeadLetters, makeMemoryDeadLetters(connection));
