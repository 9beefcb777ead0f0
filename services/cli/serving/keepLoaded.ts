/**
 * Loads the module of `agents dev` again when its files or its `.env` files change, and replaces
 * the code of the running process. `watchModule` reports the changes, `loadModule` loads.
 *
 * 1. A change does not wait for the load that an earlier one began, because the code of that one
 *    may wait at its top level without end. Only the result of the latest load is used.
 */
import type { TimeShape } from "../../../core/time/Time.ts";
import { messageOf } from "../../../core/errors/thrown.ts";
import { ModuleError, type LoadedModule } from "../../module/LoadedModule.ts";
import { watchModule } from "../../module/watchModule.ts";
import { shownPath, type Terminal } from "../terminal/Terminal.ts";
import { SLOW_LOAD_MS } from "./prepare.ts";

interface KeptModule {
  readonly time: Pick<TimeShape, "after">;
  readonly terminal: Terminal;
  readonly module: LoadedModule;
  /** Called before each load: the code's top level may read it. */
  readonly refreshEnv: () => void;
  /** The files that `refreshEnv` reads. */
  readonly envFilesRead: ReadonlyArray<string>;
  /** Replaces the code of the running process. */
  readonly apply: (next: LoadedModule) => Promise<void>;
}

/** Watches until `close`. */
export function keepLoaded({
  time,
  terminal,
  module,
  refreshEnv,
  envFilesRead,
  apply,
}: KeptModule): {
  readonly close: () => void;
} {
  let latest = 0;
  let applied = Promise.resolve();
  /** Files whose changes no message has named. */
  const changes = new Set<string>();
  const watch = watchModule({
    files: [...envFilesRead, ...module.files],
    // A file may have been saved since the first load.
    sinceMs: performance.timeOrigin,
    time,
    onChange: (changed) => {
      for (const file of changed) changes.add(shownPath(terminal.cwd, file));
      void reload(++latest);
    },
  });
  const follow = (files: ReadonlyArray<string>): void => watch.follow([...envFilesRead, ...files]);
  const followAlso = (files: ReadonlyArray<string>): void =>
    follow([...new Set([...module.files, ...files])]);
  const reload = async (load: number): Promise<void> => {
    const { filesBeingLoaded, loadModule } = await import("../../module/loadModule.ts");
    const changed = (): string => `${[...changes].join(", ")} changed`;
    const cancel = time.after(SLOW_LOAD_MS, () => {
      if (load !== latest) return;
      void filesBeingLoaded().then(followAlso);
      terminal.err(
        `${changed()}, but is still loading: does its top level await something that does not end? The previous code keeps running.`,
      );
    });
    try {
      refreshEnv();
      const loaded = await loadModule(module.file);
      if (load !== latest) return;
      follow(loaded.files);
      await (applied = applied.catch(() => undefined).then(() => apply(loaded)));
      terminal.out(`${changed()}: reloaded`);
    } catch (error) {
      if (load !== latest) return;
      if (error instanceof ModuleError) followAlso(error.files);
      terminal.err(
        `${changed()}, but can't be loaded. The previous code keeps running.\n${messageOf(error)}`,
      );
    } finally {
      cancel();
    }
    changes.clear();
  };
  return watch;
}
