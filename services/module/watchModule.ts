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

export const watchModule = (options: WatchOptions): ModuleWatch => new Watch(options);

class Watch implements ModuleWatch {
  private folders = new Map<string, FSWatcher>();
  private stamps: Map<string, string>;
  private cancel: (() => void) | undefined;
  private cancelPoll: (() => void) | undefined;

  constructor(private readonly options: WatchOptions) {
    const { files, sinceMs = Infinity } = options;
    this.stamps = new Map(files.filter(changedSince(sinceMs)).map((file) => [file, NO_FILE]));
    this.follow(files);
  }

  follow(files: ReadonlyArray<string>): void {
    // A file that is still followed keeps its stamp: a change during the load is not lost.
    this.stamps = new Map(files.map((file) => [file, this.stamps.get(file) ?? stampOf(file)]));
    const names = new Map<string, Set<string>>();
    for (const file of files) {
      const folder = dirname(file);
      names.set(folder, (names.get(folder) ?? new Set()).add(basename(file)));
    }
    this.cancelPoll?.();
    this.cancelPoll = undefined;
    const before = this.folders;
    this.folders = new Map();
    for (const [folder, wanted] of names) this.watch(folder, wanted);
    for (const watcher of before.values()) watcher.close();
    // Detects changes between the load and the watch.
    this.later();
  }

  close(): void {
    this.cancel?.();
    this.cancelPoll?.();
    for (const watcher of this.folders.values()) watcher.close();
    this.folders.clear();
  }

  private watch(folder: string, wanted: ReadonlySet<string>): void {
    const watcher = openWatch(folder);
    if (watcher === undefined) return this.poll();
    watcher.on("change", (_kind, name) => {
      if (name === null || wanted.has(String(name))) this.later();
    });
    // Removing a folder ends its watch. The next load replaces the list.
    watcher.on("error", () => {
      watcher.close();
      this.poll();
    });
    this.folders.set(folder, watcher);
  }

  private later(): void {
    this.cancel?.();
    this.cancel = this.options.time.after(SETTLE_MS, () => this.settle());
  }

  private poll(): void {
    this.cancelPoll?.();
    this.cancelPoll = this.options.time.after(POLL_MS, () => {
      this.settle();
      this.poll();
    });
  }

  private settle(): void {
    const changed: string[] = [];
    for (const [file, before] of this.stamps) {
      const now = stampOf(file);
      if (now === before) continue;
      this.stamps.set(file, now);
      changed.push(file);
    }
    if (changed.length > 0) this.options.onChange(changed);
  }
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
