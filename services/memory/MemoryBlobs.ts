/** Blobs in memory. */
import * as Layer from "effect/Layer";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryBlobs(connection: MemoryConnection): BlobsShape {
  const { blobs } = connection.broker;
  return {
    put: async (name, data) => {
      await connection.operation("putBlob", name);
      blobs.set(name, data.slice());
    },
    get: async (name) => {
      await connection.operation("getBlob", name);
      return blobs.get(name)?.slice();
    },
    remove: async (name) => {
      await connection.operation("removeBlob", name);
      blobs.delete(name);
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<Blobs> =>
  Layer.succeed(Blobs, makeMemoryBlobs(connection));
