/** Finds the servers of a checkout: folders whose configuration file names a module. */
import { readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { readWrangler } from "../../services/wrangler/readWrangler.ts";

export interface ExampleServer {
  /** The folder's path in the checkout. */
  readonly name: string;
  /** Absolute path of the module. */
  readonly module: string;
}

const CONFIG = /^wrangler\.(?:jsonc|json|toml)$/;
const NOT_SERVERS = new Set(["node_modules", "test", "tests", "tests-e2e"]);

/** `under`: folders of the checkout that are searched. In the order of their names. */
export function exampleServers(
  root: string,
  under: ReadonlyArray<string>,
): ReadonlyArray<ExampleServer> {
  return under
    .flatMap((folder) => foldersWithConfig(join(root, folder)))
    .toSorted()
    .flatMap((folder) => {
      const module = readWrangler(folder)?.main;
      return module === undefined ? [] : [{ name: relative(root, folder), module }];
    });
}

function foldersWithConfig(folder: string): ReadonlyArray<string> {
  const entries = readdirSync(folder, { withFileTypes: true });
  const below = entries
    .filter((entry) => entry.isDirectory() && !NOT_SERVERS.has(entry.name))
    .flatMap((entry) => foldersWithConfig(join(folder, entry.name)));
  return entries.some(({ name }) => CONFIG.test(name)) ? [folder, ...below] : below;
}
