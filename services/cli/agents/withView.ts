/**
 * Opens the view of all agents (`core/query/View`) in the data folder, updates it, and lets a
 * command query it. Used if no host runs, or the command keeps its own view.
 */
import { join } from "node:path";
import { View, ViewNotSaved, VIEW_RESIDENT_BYTES } from "../../../core/query/View.ts";
import { IMAGE_BYTES_MAX } from "../../../schemas/PageDelta.ts";
import { makeFolder } from "../terminal/makeFolder.ts";
import type { Joins } from "../../wiring/Joins.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { failed } from "../terminal/CliError.ts";
import type { Progress } from "../terminal/Progress.ts";
import { withFileLock, type LockOptions } from "./withFileLock.ts";

/** SQLite's code for a database that has its maximum number of pages. */
const RESULT_FULL = 13;
/** Longer than rebuilding a view of 100,000 agents takes. */
const WAIT_MS_MAX = 120_000;

interface ViewOptions {
  readonly dataFolder: string;
  /** Rebuild the view first. */
  readonly rebuild: boolean;
  readonly progress: Progress;
}

/** Rejects with `CliError`, `BrokerUnavailable`, and as `use` does. */
export async function withView<A>(
  joins: Pick<Joins, "openDatabases" | "time">,
  ports: Pick<ReadPorts, "journal" | "snapshots" | "databases" | "changes" | "namespace">,
  { dataFolder, rebuild, progress }: ViewOptions,
  use: (view: View) => A,
): Promise<A> {
  const folder = join(dataFolder, "view");
  const sources = {
    changes: ports.changes,
    agents: ports,
    tell: (done: number, total: number) => progress.tell(done, total),
  };
  makeFolder(folder, 0o700);
  return withFileLock(lockOf(folder), joins.time, async () => {
    const opened = await joins.openDatabases({ folder, residentBytesMax: VIEW_RESIDENT_BYTES });
    try {
      const view = new View(opened.databases, ports.namespace);
      if (rebuild) view.forget();
      const catchUp = async (): Promise<void> => {
        await view.catchUp(sources);
        // Saved before the statement, which may be wrong, since reading the journals can take
        // minutes.
        view.save();
      };
      const result = await view.ask(catchUp, () => use(view));
      progress.end();
      view.close();
      return result;
    } catch (error) {
      if (error instanceof ViewNotSaved) throw failed(`${folder}: ${error.message}`);
      if (isFull(error))
        throw failed(
          `The states of all agents together exceed the size limit of a view (${IMAGE_BYTES_MAX / 2 ** 20} MiB).`,
        );
      throw error;
    } finally {
      opened.close();
    }
  });
}

function lockOf(folder: string): LockOptions {
  const path = join(folder, "lock");
  return {
    path,
    waitMs: WAIT_MS_MAX,
    busy: (holder) =>
      `${holder} has been updating the view in ${folder} for too long. If it is not an "agents query", remove ${path}.`,
  };
}

/** SQLite's error if the view is larger than a database may be. */
const isFull = (error: unknown): boolean =>
  error instanceof Error &&
  "resultCode" in error &&
  (Number(error.resultCode) & 0xff) === RESULT_FULL;
