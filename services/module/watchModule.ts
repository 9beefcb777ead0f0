/**
 * Reports when a module or one of its local imports has changed, so that `agents dev` can load it
 * again. Folders are watched instead of files, because editors save by renaming a new file into
 * place, which ends a watch on the file itself. If a folder can't be watched (the system's watches
 * are used up, or the folder is gone), its files are checked every second.
 */
import { statSync, watch, type FSWatcher } from "node:fs";
import { basename, dirname } from "node:path";
import type { TimeShape } from "../../core/time/Time.ts";

/** A save is several file events, a checkout many saves. A change is reported once they settle. */
const SETTLE_MS = 80;
/** How often files are checked when the system has no watch left. */
const POLL_MS = 1_000;
/** The stamp of a file that does not exist. */
const NO_FILE = "";

export interface ModuleWatch {
  /** Replaces the watched files after a load returned another list. */
  readonly follow: (files: ReadonlyArray<string>) => void;
  readonly close: () => void;
}

interface WatchOptions {
  /** Absolute paths. Files that do not exist yet are watched too. */
  readonly files: ReadonlyArray<string>;
  /**
   * Milliseconds since the epoch. A file that changed later may have been read before the change,
   * and is reported at once.
   */
  readonly sinceMs?: number;
  readonly time: Pick<TimeShape, "after">;
  /** The files that changed, once they have been quiet for a moment. */
  readonly onChange: (files: ReadonlyArray<string>) => void;
}

export function watchModule(options: WatchOptions): ModuleWatch {
  let folders = new Map<string, FSWatcher>();
  const { sinceMs = Infinity } = options;
  let stamps = new Map(options.files.filter(changedSince(sinceMs)).map((file) => [file, NO_FILE]));
  let cancel: (() => void) | undefined;
  let cancelPoll: (() => void) | undefined;

  const settle = (): void => {
    const changed: string[] = [];
    for (const [file, before] of stamps) {
      const now = stampOf(file);
      if (now === before) continue;
      stamps.set(file, now);
      changed.push(file);
    }
    if (changed.length > 0) options.onChange(changed);
  };
  const later = (): void => {
    cancel?.();
    cancel = options.time.after(SETTLE_MS, settle);
  };

  const poll = (): void => {
    cancelPoll?.();
    cancelPoll = options.time.after(POLL_MS, () => {
      settle();
      poll();
    });
  };

  const follow = (files: ReadonlyArray<string>): void => {
    // A file that is still followed keeps its stamp: a change during the load is not lost.
    stamps = new Map(files.map((file) => [file, stamps.get(file) ?? stampOf(file)]));
    const names = new Map<string, Set<string>>();
    for (const file of files) {
      const folder = dirname(file);
      names.set(folder, (names.get(folder) ?? new Set()).add(basename(file)));
    }
    const next = new Map<string, FSWatcher>();
    cancelPoll?.();
    cancelPoll = undefined;
    for (const [folder, wanted] of names) {
      const watcher = openWatch(folder);
      if (watcher === undefined) {
        poll();
        continue;
      }
      watcher.on("change", (_kind, name) => {
        if (name === null || wanted.has(String(name))) later();
      });
      // Removing a folder ends its watch. The next load replaces the list.
      watcher.on("error", () => {
        watcher.close();
        poll();
      });
      next.set(folder, watcher);
    }
    for (const watcher of folders.values()) watcher.close();
    folders = next;
    // Detects changes between the load and the watch.
    later();
  };

  follow(options.files);
  return {
    follow,
    close: () => {
      cancel?.();
      cancelPoll?.();
      for (const watcher of folders.values()) watcher.close();
      folders.clear();
    },
  };
}

/** Returns undefined if the folder can't be watched. The watch does not keep the process alive. */
function openWatch(folder: string): FSWatcher | undefined {
  try {
    return watch(folder, { persistent: false });
  } catch {
    return undefined;
  }
}

const changedSince =
  (sinceMs: number) =>
  (file: string): boolean =>
    (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) > sinceMs;

/** A value that differs whenever the file's content may differ. */
function stampOf(file: string): string {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? NO_FILE : `${stat.ino}:${stat.size}:${stat.mtimeNs}`;
}
