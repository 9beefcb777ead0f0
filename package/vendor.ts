/**
 * Copies into `dist/node_modules` the files of those packages that turnkeep ships inside itself:
 * only the files that its code reaches, with each package's manifest and licence. A user's install
 * then has neither what they would bring along (effect: 61 MB, of which 3.5 are reached) nor their
 * install scripts, and never another version of what the engine depends on by its internals.
 *
 * `VENDORED` is the list and says why each is on it.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { build } from "esbuild";

export interface Vendored {
  readonly why: string;
  /** Files that no import names. Folders are copied whole. Relative to the package. */
  readonly files?: ReadonlyArray<string>;
}

export const VENDORED: Readonly<Record<string, Vendored>> = {
  effect: { why: "its types, maps and sources are 57 MB that nothing reads at run time" },
  "@sqlite.org/sqlite-wasm": {
    why: "the page VFS uses internals of exactly this build; its node.mjs finds the binary by URL",
    files: ["dist/sqlite3.wasm"],
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

const NAME = /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//;

/** `root` has `node_modules`, and `dist` with what tsc wrote, only. Returns the number of files. */
export async function vendor(root: string): Promise<number> {
  const dist = join(root, "dist");
  const target = join(dist, "node_modules");
  const files = new Set(await reached(root, dist));
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

/** The vendored packages' files that the code in `dist` imports, directly or through others. */
async function reached(root: string, dist: string): Promise<ReadonlyArray<string>> {
  const entries = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".js") && !/^(?:node_modules|reading|console)\b/.test(path),
  );
  const { metafile } = await build({
    entryPoints: entries.map((path) => join(dist, path)),
    absWorkingDir: root,
    outdir: "never",
    write: false,
    metafile: true,
    bundle: true,
    treeShaking: false,
    splitting: true, // each file is read once, not once for each entry
    platform: "node",
    format: "esm",
    logLevel: "error",
    plugins: [
      {
        name: "only the vendored packages",
        setup: ({ onResolve }) =>
          onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
            const name = /^(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? path;
            // tsx and esbuild are copied as they are: they load files by computed names.
            const whole = VENDORED[name]?.files?.some((file) => !file.endsWith(".wasm")) ?? false;
            const own = kind === "entry-point" || (VENDORED[name] !== undefined && !whole);
            return own ? undefined : { path, external: true };
          }),
      },
    ],
  });
  return Object.keys(metafile.inputs)
    .map((path) => join(root, path))
    .filter((path) => VENDORED[NAME.exec(path)?.[1] ?? ""] !== undefined);
}

function filesOf(path: string): ReadonlyArray<string> {
  if (!existsSync(path)) throw new Error(`${path} does not exist: correct package/vendor.ts`);
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { recursive: true, encoding: "utf8" })
    .map((file) => join(path, file))
    .filter((file) => statSync(file).isFile() && !/\.(?:map|d\.[cm]?ts)$/.test(basename(file)));
}
