/**
 * Opens the view of all agents (`core/query/View`) in the data folder, brings it up to date, and
 * lets a command query it.
 */
import { join } from "node:path";
import { LocalImageCorrupt } from "../../../core/database/Databases.ts";
import { View, ViewNotSaved, VIEW_LIMITS } from "../../../core/query/View.ts";
import { IMAGE_BYTES_MAX } from "../../../schemas/PageDelta.ts";
import type { Joins, ReadPorts } from "../../wiring/Joins.ts";
import { failed } from "../terminal/CliError.ts";
import type { Progress } from "../terminal/Progress.ts";
import { withViewLock } from "./viewLock.ts";

/** SQLite's code for a database that holds its maximum of pages. */
const RESULT_FULL = 13;
/** With room for one more batch: pages past it are written before the save. */
const RESIDENT_BYTES_MAX = 2 * VIEW_LIMITS.unsavedBytesMax;

export interface ViewOptions {
  readonly dataFolder: string;
  /** Make it anew. */
  readonly rebuild: boolean;
  readonly progress: Progress | undefined;
}

/** Rejects with `CliError`, `BrokerUnavailable`, and as `use` does. */
export async function withView<A>(
  joins: Pick<Joins, "openDatabases" | "time">,
  ports: Pick<ReadPorts, "journal" | "snapshots" | "databases" | "changes" | "namespace">,
  { dataFolder, rebuild, progress }: ViewOptions,
  use: (view: View) => A,
): Promise<A> {
  const folder = join(dataFolder, "view");
  const { journal, snapshots, databases, changes } = ports;
  const sources = {
    changes,
    agents: { journal, snapshots, databases },
    tell: (done: number, total: number) => progress?.tell("events read", done, total),
  };
  return withViewLock(folder, joins.time, async () => {
    const opened = await joins.openDatabases({ folder, residentBytesMax: RESIDENT_BYTES_MAX });
    try {
      const view = new View(opened.databases, ports.namespace);
      const answer = async (): Promise<A> => {
        await view.catchUp(sources);
        return use(view);
      };
      if (rebuild) view.forget();
      const result = await answer().catch((error: unknown) => {
        if (!(error instanceof LocalImageCorrupt)) throw error;
        view.forget();
        return answer();
      });
      view.close();
      return result;
    } catch (error) {
      if (error instanceof ViewNotSaved) throw failed(`${folder}: ${error.message}`);
      if (isFull(error))
        throw failed(
          `The states of all agents together are larger than a view may be (${IMAGE_BYTES_MAX / 2 ** 20} MiB).`,
        );
      throw error;
    } finally {
      opened.close();
    }
  });
}

/** What SQLite says where the view is larger than a database may be. */
const isFull = (error: unknown): boolean =>
  error instanceof Error &&
  "resultCode" in error &&
  (Number(error.resultCode) & 0xff) === RESULT_FULL;
