/**
 * Bundles the sources into `dist`: the command line, the entries of package.json and the files that
 * threads and hooks run, each at the path that it has in the sources, and what they share in
 * `dist/chunks`. A process then reads some dozens of files instead of a thousand, which was most of
 * its start. `core` and the packages that turnkeep brings along are in the chunks.
 *
 * 1. All files for Node are bundled at once and share chunks, so that a user's module, which
 *    imports `agents`, gets the classes that the command line runs.
 * 2. Code finds other files of this package by `services/ownPackage/ownFile`, since it is moved.
 * 3. The entries for browsers share nothing with those for Node.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { build, type BuildOptions } from "esbuild";
import { VENDORED } from "./vendor.ts";

/** Entries of package.json that a page imports. */
const FOR_BROWSERS = ["client", "react"];

/** What starts by its path. */
export const STARTED = [
  "services/cli/main",
  "services/cli/endOnSignals",
  "services/module/moduleHooks",
  "services/platform/email",
  "services/platform/index",
  "services/platform/workflows",
  "services/watchdog/watchdogThread",
  "services/watchdog/loadThread",
  "services/wiring/queryThread",
  "services/wiring/statementThread",
];

/** What tests and benches of built code import. */
const TESTED = [
  "core/delivery/RecordBuffer",
  "services/cli/program",
  "services/cli/terminal/Terminal",
  "services/module/loadModule",
  "services/node/MachineTime",
  "services/node/ProcessLog",
  "services/workers/forkWorker",
  "services/workers/workerLink",
];

/** Brought along as files: they find more of themselves beside them. */
const STAY_APART = Object.keys(VENDORED).filter((name) => VENDORED[name]?.files !== undefined);

/** Of what npm installs; the rest stays apart, so that an update of it takes effect. */
const READ_BY_EVERY_COMMAND = new Set(["commander"]);

/** Files and folders in `dist` of the other steps of the build. */
const MADE_BY_OTHERS = new Set([".declarations", ".packaged", "console", "node_modules", "types"]);

/** What of package.json decides what is bundled. */
interface Manifest {
  readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

const readManifest = (root: string): Manifest =>
  JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;

/** The entries of package.json, by their folders in `services`. */
export const packageEntries = (root: string): ReadonlyArray<string> =>
  Object.values(readManifest(root).exports).flatMap((target) => {
    if (typeof target === "string") return [];
    const name = /^\.\/dist\/services\/(\w+)\/index\.js$/.exec(target.default)?.[1];
    if (name === undefined)
      throw new Error(`package.json: ${target.default} is not services/<name>/index.js`);
    return [name];
  });

export async function bundle(root: string): Promise<void> {
  const dist = join(root, "dist");
  for (const name of readdirSync(dist))
    if (!MADE_BY_OTHERS.has(name)) rmSync(join(dist, name), { recursive: true });
  const { dependencies, peerDependencies } = readManifest(root);
  const common = {
    absWorkingDir: root,
    outdir: dist,
    outbase: root,
    bundle: true,
    splitting: true,
    format: "esm",
    sourcemap: true,
    legalComments: "none",
    logLevel: "error",
  } satisfies BuildOptions;
  const entries = packageEntries(root).filter((name) => !FOR_BROWSERS.includes(name));
  await build({
    ...common,
    entryPoints: [...STARTED, ...TESTED, ...entries.map((name) => `services/${name}/index`)].map(
      (path) => `${path}.ts`,
    ),
    chunkNames: "chunks/[name]-[hash]",
    platform: "node",
    target: "node20",
    external: [
      ...STAY_APART,
      ...Object.keys(dependencies).filter((name) => !READ_BY_EVERY_COMMAND.has(name)),
      ...Object.keys(peerDependencies),
    ],
    // Packages of CommonJS ask for Node's own modules.
    banner: {
      js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
    },
  });
  await build({
    ...common,
    entryPoints: FOR_BROWSERS.map((name) => `services/${name}/index.ts`),
    chunkNames: "chunks/browser-[hash]",
    platform: "browser",
    target: "es2022",
    packages: "external",
  });
}
