/**
 * Copies into `dist/node_modules` the manifest and licence of each package that turnkeep ships
 * inside itself, and those files that run from there; the code of the others is in `dist/chunks`
 * (`bundle`). A user's install then has neither what they would bring along (effect: 61 MB, of
 * which 3.5 are reached) nor their install scripts, and never another version of what the engine
 * depends on by its internals.
 *
 * `VENDORED` is the list and says why each is on it.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";

interface Vendored {
  readonly why: string;
  /** Files that are copied. Folders are copied whole. Relative to the package. */
  readonly files?: ReadonlyArray<string>;
}

export const VENDORED: Readonly<Record<string, Vendored>> = {
  effect: { why: "its types, maps and sources are 57 MB that nothing reads at run time" },
  "@sqlite.org/sqlite-wasm": {
    why: "the page VFS uses internals of exactly this build; its node.mjs finds the binary by URL",
    files: ["dist/node.mjs", "dist/sqlite3.wasm"],
  },
  "@nats-io/nats-core": { why: "the reply inbox uses internals of exactly this version" },
  "@nats-io/transport-node": { why: "it belongs to nats-core's version" },
  "@nats-io/nkeys": { why: "it belongs to nats-core's version" },
  "@nats-io/nuid": { why: "it belongs to nats-core's version" },
  tweetnacl: { why: "nkeys imports it" },
  tsx: { why: "it depends on the package esbuild, which has an install script", files: ["dist"] },
  esbuild: {
    why: "its install script; the binary is an optional dependency",
    files: ["lib/main.js"],
  },
};

/** `root` has `node_modules`. Returns the number of files. */
export function vendor(root: string): number {
  const target = join(root, "dist/node_modules");
  const files = new Set<string>();
  for (const [name, { files: more = [] }] of Object.entries(VENDORED)) {
    const folder = join(root, "node_modules", name);
    const legal = readdirSync(folder).filter((file) =>
      /^(?:licen[cs]e|notice|package\.json)/i.test(file),
    );
    for (const path of [...legal, ...more])
      for (const file of filesOf(join(folder, path))) files.add(file);
  }
  for (const file of files) {
    const to = join(target, relative(join(root, "node_modules"), file));
    mkdirSync(dirname(to), { recursive: true });
    copyFileSync(file, to);
  }
  return files.size;
}

function filesOf(path: string): ReadonlyArray<string> {
  if (!existsSync(path)) throw new Error(`${path} does not exist: correct package/vendor.ts`);
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { recursive: true, encoding: "utf8" })
    .map((file) => join(path, file))
    .filter((file) => statSync(file).isFile() && !/\.(?:map|d\.[cm]?ts)$/.test(basename(file)));
}
