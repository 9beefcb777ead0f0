/**
 * Loads a module for commands that run inputs in memory on its code (`agents rerun`, `--on-fork`).
 * The module gets the environment that a host would give it, and must have the agents' classes.
 */
import type { TimeShape } from "../../../core/time/Time.ts";
import type { LoadedModule } from "../../module/LoadedModule.ts";
import { failed } from "../terminal/CliError.ts";
import { shownPath, type Terminal } from "../terminal/Terminal.ts";
import { findModule, loadWithEnv } from "./prepare.ts";

/**
 * `file`: as given on the command line. Rejects with `CliError`, for example if a class is missing,
 * and as `loadWithEnv` does.
 */
export async function loadForRuns(
  terminal: Terminal,
  time: Pick<TimeShape, "after">,
  file: string | undefined,
  classes: ReadonlySet<string>,
): Promise<{ readonly module: LoadedModule; readonly env: Readonly<Record<string, string>> }> {
  const path = await findModule(terminal, file);
  const { module, loaded } = await loadWithEnv(terminal, time, path);
  for (const className of classes) {
    if (module.agents.has(className)) continue;
    const known = [...module.agents.keys()].join(", ");
    throw failed(
      `${shownPath(terminal.cwd, path)} does not export an agent class ${className}; its classes: ${known || "none"}`,
    );
  }
  return { module, env: loaded.env };
}
