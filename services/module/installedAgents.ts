/**
 * Reads the setting in `package.json` with which an app imports `agents` from the package of that
 * name that it has installed: `"turnkeep": { "agents": "installed" }`. The classes of the
 * reference's own package then run as Durable Objects. `moduleHooks` resolves `agents` accordingly.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ModuleError } from "./LoadedModule.ts";

/** Reads the setting in the module's nearest `package.json`. Throws `ModuleError` otherwise. */
export function usesInstalledAgents(module: string): boolean {
  const file = nearestManifest(dirname(module));
  if (file === undefined) return false;
  const { agents } = settingsOf(file);
  if (agents === undefined || agents === "installed") return agents === "installed";
  throw new ModuleError({
    file: module,
    files: [module, file],
    message: `${file}: "turnkeep" has "agents": ${JSON.stringify(agents)}. The only value is "installed", for an app that uses the agents of its installed package; leave it out to use turnkeep's`,
  });
}

/** The `package.json` that applies to a module in this folder, or undefined. */
export function nearestManifest(folder: string): string | undefined {
  const file = join(folder, "package.json");
  if (existsSync(file)) return file;
  const parent = dirname(folder);
  return parent === folder ? undefined : nearestManifest(parent);
}

function settingsOf(file: string): { readonly agents?: unknown } {
  try {
    const { turnkeep } = JSON.parse(readFileSync(file, "utf8")) as { readonly turnkeep?: object };
    return turnkeep ?? {};
  } catch {
    // Node reports the fault if it matters.
    return {};
  }
}
