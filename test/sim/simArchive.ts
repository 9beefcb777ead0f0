/** The archive of a simulation, on a disk in memory: what is not flushed dies with its process. */
import { gunzipSync, gzipSync } from "node:zlib";
import type { ArchiveStore } from "../../services/archive/ArchiveStore.ts";
import { SegmentArchive } from "../../services/archive/SegmentArchive.ts";
import type { Installation } from "./Installation.ts";
import type { SimPorts } from "./simPorts.ts";
import type { SimProcess } from "./rig/SimProcess.ts";

/** Another thread would take real time. */
const AT_ONCE = {
  zip: (bytes: Uint8Array) => gzipSync(bytes),
  unzip: (bytes: Uint8Array) => gunzipSync(bytes),
};
/** In a planted bug, what counts as durable is flushed so much later. */
const FLUSHED_MS = 400;

/** For the outside, which neither dies nor waits. */
export const makeArchive = (installation: Installation): SegmentArchive =>
  new SegmentArchive({
    store: diskOf(installation),
    namespace: "sim",
    gzip: AT_ONCE,
    time: {
      nowMs: installation.time.nowMs,
      after: installation.time.after,
      id: () => "outside",
    },
  });

const diskOf = ({ archived }: Installation): ArchiveStore => ({
  name: "the disk",
  put: async (key, bytes) => void archived.set(key, bytes.slice()),
  get: async (key, range) => {
    const found = archived.get(key);
    return range === undefined
      ? found?.slice()
      : found?.slice(range.offset, range.offset + range.bytes);
  },
  list: async function* (prefix) {
    for (const key of [...archived.keys()].toSorted()) if (key.startsWith(prefix)) yield key;
  },
});

/** As a process that trims uses it. */
export function simArchive(
  installation: Installation,
  process: SimProcess,
  ask: SimPorts["ask"],
): SegmentArchive {
  const disk = diskOf(installation);
  const { weather, time } = installation;
  /** What the planted bug's process sees of a file before it is flushed. */
  const cached = new Map<string, Uint8Array>();
  const put: ArchiveStore["put"] = async (key, bytes) => {
    if (weather.bug?.archivesLate !== true) return disk.put(key, bytes);
    cached.set(key, bytes.slice());
    time.after(FLUSHED_MS, () => {
      if (process.alive) void disk.put(key, bytes);
    });
  };
  return new SegmentArchive({
    store: {
      ...disk,
      put: (key, bytes) => ask(["archive:before", "archive:after"], () => put(key, bytes)),
      get: (key, range) =>
        ask(undefined, async () => cached.get(key)?.slice() ?? disk.get(key, range)),
    },
    namespace: "sim",
    gzip: AT_ONCE,
    time: process.time,
  });
}
