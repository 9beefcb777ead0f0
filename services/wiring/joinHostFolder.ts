/**
 * The folder of a host on its machine: local images of its agents and the view that answers its
 * queries. Both are caches. `joinProcess` claims one for each host that it starts.
 */
import { chmodSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import * as Effect from "effect/Effect";
import { Databases } from "../../core/database/Databases.ts";
import { Journal } from "../../core/journal/Journal.ts";
import { Log } from "../../core/telemetry/Log.ts";
import { Time } from "../../core/time/Time.ts";
import { clearUnused } from "../lock/clearUnused.ts";
import { DataFolderInUse, lockDataFolder } from "../lock/DataFolderLock.ts";
import type { FileLock } from "../lock/FileLock.ts";
import { machineTime } from "../node/MachineTime.ts";
import { cachedAgents } from "../sqlite/cachedAgents.ts";
import { forgetErased } from "./forgetErased.ts";
import { HostQueries } from "./HostQueries.ts";
import type { OpenBroker } from "./Joins.ts";
import type { ProcessSettings } from "./ProcessSettings.ts";

/** Hosts on one data folder at a time, against a loop that starts hosts on a few cores. */
const HOSTS_PER_FOLDER_MAX = 256;

/** Answers of this host to questions over all agents, whose view is in its folder. */
export const serveQueries = (
  { namespace, natsLogin: login }: ProcessSettings,
  { url: natsUrl }: OpenBroker,
  folder: string,
) =>
  Effect.acquireRelease(
    Effect.sync(
      () =>
        new HostQueries(
          { target: { natsUrl, login, namespace }, folder: join(folder, "view") },
          machineTime,
        ),
    ),
    (queries) => Effect.promise(() => queries.stop()),
  );

/**
 * In the background: removes files of agents that were erased while this host was away, and empties
 * folders beside this host's (`own`) that are not used any more.
 */
export const lookThrough = ({ own, images }: { readonly own: string; readonly images: string }) =>
  Effect.gen(function* () {
    const ports = {
      journal: yield* Journal,
      databases: yield* Databases,
      time: yield* Time,
      log: yield* Log,
    };
    const stopped = yield* Effect.acquireRelease(
      Effect.sync(() => new AbortController()),
      (controller) => Effect.sync(() => controller.abort()),
    );
    const startMs = ports.time.nowMs();
    void forgetErased(ports, cachedAgents(images, startMs), stopped.signal);
    yield* Effect.acquireRelease(
      Effect.sync(() => clearUnused(dirname(own), ports)),
      (end) => Effect.sync(end),
    );
  });

/** Claims a folder for this host's local images: two hosts never share one. */
export const hostFolder = (dataFolder: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async (): Promise<FileLock & { folder: string }> => {
        for (let n = 0; n < HOSTS_PER_FOLDER_MAX; n++) {
          const folder = join(dataFolder, "hosts", String(n));
          mkdirSync(folder, { recursive: true, mode: 0o700 });
          chmodSync(folder, 0o700); // an older release made it readable for all
          const lock = await lockDataFolder(folder).catch((error: unknown) => {
            if (error instanceof DataFolderInUse) return undefined;
            throw error;
          });
          if (lock !== undefined) return { ...lock, folder };
        }
        throw new Error(
          `${dataFolder}/hosts: ${HOSTS_PER_FOLDER_MAX} hosts already use it. Use another folder for this one (--data)`,
        );
      }),
      (lock) => Effect.sync(() => lock.release()),
    ),
    ({ folder }) => folder,
  );
