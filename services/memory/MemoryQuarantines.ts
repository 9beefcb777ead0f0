/** Quarantine marks in memory, encoded as the broker has them. */
import * as Layer from "effect/Layer";
import { Quarantines, type QuarantinesShape } from "../../core/quarantine/Quarantines.ts";
import { addressKey } from "../../schemas/Address.ts";
import { decodeQuarantineMark, encodeQuarantineMark } from "../../schemas/QuarantineMark.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryQuarantines(connection: MemoryConnection): QuarantinesShape {
  const { quarantines } = connection.broker;
  return {
    put: async (id, mark) => {
      await connection.operation("putMark", addressKey(id));
      quarantines.set(addressKey(id), { id, data: encodeQuarantineMark(mark) });
    },
    list: async () => {
      await connection.operation("listMarks", "");
      return [...quarantines.values()].map(({ id, data }) => ({
        id,
        mark: decodeQuarantineMark(data),
      }));
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<Quarantines> =>
  Layer.succeed(Quarantines, makeMemoryQuarantines(connection));
