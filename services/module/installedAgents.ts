/**
 * The switch by which an app keeps `agents` for the package of that name that it has installed, in
 * its `package.json`: `"turnkeep": { "agents": "installed" }`. The classes of the reference's own
 * package then run as Durable Objects. `moduleHooks` resolves `agents` by it.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ModuleError } from "./LoadedModule.ts";

/** As the nearest `package.json` of the module says. Throws `ModuleError` for any other word. */
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

/** The `package.json` that counts for a module in this folder; undefined without one. */
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
    // Node says what is wrong with it where that matters.
    return {};
  }
}
