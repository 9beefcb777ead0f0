/**
 * Opens the view of all agents (`core/query/View`) in the data folder, brings it up to date, and
 * lets a command query it.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { View, ViewNotSaved, VIEW_LIMITS } from "../../../core/query/View.ts";
import { IMAGE_BYTES_MAX } from "../../../schemas/PageDelta.ts";
import type { Joins, ReadPorts } from "../../wiring/Joins.ts";
import { failed } from "../terminal/CliError.ts";
import type { Progress } from "../terminal/Progress.ts";
import { withFileLock, type LockOptions } from "./withFileLock.ts";

/** SQLite's code for a database that holds its maximum of pages. */
const RESULT_FULL = 13;
/** Longer than rebuilding a view of 100,000 agents takes. */
const WAIT_MS_MAX = 120_000;
/** With room for one more batch: pages past it are written before the save. */
const RESIDENT_BYTES_MAX = 2 * VIEW_LIMITS.unsavedBytesMax;

/** The caller has seen the event stored, so only a slow clock or copy can delay it. */
const EVENT_WAIT_MS = 30_000;
/** The ends of the streams are cheap to ask for. */
const EVENT_AGAIN_MS = 100;

export interface ViewOptions {
  readonly dataFolder: string;
  /** Rebuild the view first. */
  readonly rebuild: boolean;
  readonly progress: Progress;
  /** Must be in the view. */
  readonly event: ViewEvent | undefined;
}

/** An event of an agent, by its place in the journals' streams. */
export interface ViewEvent {
  /** As it was given. */
  readonly text: string;
  readonly group: number;
  readonly seq: number;
}

/** Rejects with `CliError`, `BrokerUnavailable`, and as `use` does. */
export async function withView<A>(
  joins: Pick<Joins, "openDatabases" | "time">,
  ports: Pick<ReadPorts, "journal" | "snapshots" | "databases" | "changes" | "namespace">,
  { dataFolder, rebuild, progress, event }: ViewOptions,
  use: (view: View) => A,
): Promise<A> {
  const folder = join(dataFolder, "view");
  const { journal, snapshots, databases, changes } = ports;
  const sources = {
    changes,
    agents: { journal, snapshots, databases },
    tell: (done: number, total: number) => progress.tell(done, total),
  };
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return withFileLock(lockOf(folder), joins.time, async () => {
    const opened = await joins.openDatabases({ folder, residentBytesMax: RESIDENT_BYTES_MAX });
    try {
      const view = new View(opened.databases, ports.namespace);
      if (rebuild) view.forget();
      const startMs = joins.time.monotonicMs();
      const catchUp = async (): Promise<void> => {
        await upToEvent();
        // Before the statement, which may be wrong: reading the journals can take minutes.
        view.save();
      };
      const upToEvent = async (): Promise<void> => {
        await view.catchUp(sources);
        while (event !== undefined && (view.seqs[event.group] ?? 0) < event.seq) {
          if (joins.time.monotonicMs() - startMs > EVENT_WAIT_MS)
            throw failed(
              `--after ${event.text}: no such event was stored within ${EVENT_WAIT_MS / 1_000} seconds. The view goes up to event ${view.seqs[event.group] ?? 0}.`,
            );
          await new Promise<void>((resolve) => joins.time.after(EVENT_AGAIN_MS, resolve));
          await view.catchUp(sources);
        }
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

/** What SQLite says where the view is larger than a database may be. */
const isFull = (error: unknown): boolean =>
  error instanceof Error &&
  "resultCode" in error &&
  (Number(error.resultCode) & 0xff) === RESULT_FULL;
