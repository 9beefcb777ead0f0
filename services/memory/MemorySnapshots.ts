/** The last `SNAPSHOTS_KEPT` snapshots of each agent, in memory. */
import * as Layer from "effect/Layer";
import { Snapshots, SNAPSHOTS_KEPT, type SnapshotsShape } from "../../core/journal/Snapshots.ts";
import { addressKey } from "../../schemas/Address.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemorySnapshots(connection: MemoryConnection): SnapshotsShape {
  const { snapshots } = connection.broker;
  return {
    put: async (id, data) => {
      const key = addressKey(id);
      await connection.operation("putSnapshot", key);
      const kept = [...(snapshots.get(key) ?? []), data.slice()].slice(-SNAPSHOTS_KEPT);
      snapshots.set(key, kept);
    },
    newestFirst: async function* (id) {
      const key = addressKey(id);
      await connection.operation("readSnapshots", key);
      for (const data of (snapshots.get(key) ?? []).toReversed()) yield data.slice();
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<Snapshots> =>
  Layer.succeed(Snapshots, makeMemorySnapshots(connection));
