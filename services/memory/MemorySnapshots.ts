/** The last `SNAPSHOTS_KEPT` snapshots of each agent, in memory, and its bases (`BaseStore`). */
import * as Layer from "effect/Layer";
import { Snapshots, SNAPSHOTS_KEPT, type SnapshotsShape } from "../../core/journal/Snapshots.ts";
import { addressKey } from "../../schemas/Address.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemorySnapshots(connection: MemoryConnection): SnapshotsShape {
  const { snapshots, bases } = connection.broker;
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
    bases: async (id) => {
      await connection.operation("readBases", addressKey(id));
      const stored = bases.get(id);
      return stored && { ...stored, copies: stored.copies.map((copy) => copy.slice()) };
    },
    putBase: async (id, data, revision) => {
      await connection.operation("putBase", addressKey(id));
      return bases.put(id, data, revision);
    },
    removeBases: async (id, revision) => {
      await connection.operation("removeBases", addressKey(id));
      if ((bases.get(id)?.revision ?? 0) <= revision) bases.remove(id);
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<Snapshots> =>
  Layer.succeed(Snapshots, makeMemorySnapshots(connection));
