/** Dead letters in memory. */
import * as Layer from "effect/Layer";
import { DeadLetters, type DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import { addressKey } from "../../schemas/Address.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryDeadLetters(connection: MemoryConnection): DeadLettersShape {
  const { deadLetters } = connection.broker;
  return {
    put: async (id, data, death) => {
      await connection.operation("deadLetter", addressKey(id));
      if (death === undefined || deadLetters.isFirst(id, death, connection.time.monotonicMs()))
        deadLetters.put(id, data);
    },
    count: async () => {
      await connection.operation("countDead", "");
      return deadLetters.count;
    },
    list: async function* (className) {
      await connection.operation("listDead", className ?? "");
      for (const letter of deadLetters.all())
        if (className === undefined || letter.id.class === className)
          yield { ...letter, data: letter.data.slice() };
    },
    get: async (seq) => {
      await connection.operation("getDead", String(seq));
      const letter = deadLetters.get(seq);
      return letter === undefined ? undefined : { ...letter, data: letter.data.slice() };
    },
    remove: async (seq) => {
      await connection.operation("removeDead", String(seq));
      return deadLetters.remove(seq);
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<DeadLetters> =>
  Layer.succeed(DeadLetters, makeMemoryDeadLetters(connection));
