/**
 * Bundles the command line of commands that run no module into `dist/reading`, with what they
 * import. A command then reads a few files and not six hundred, which was most of its time; what it
 * imports late is a file of its own. `services/cli/main` uses it where it is.
 *
 * Commands that run a module stay as tsc wrote them: the module imports the same files, and must
 * not meet another copy of a class. Here they are external.
 */
import { readdirSync, rmSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { build } from "esbuild";

/** What runs a module, or finds its own files by where they lie. Relative to `dist/services`. */
const EXTERNAL =
  /^(?:cli\/commands\/(?:init|dev|rerun|console|completion)|cli\/roles\/(?:gateway|host|mail|retention)|cli\/serving\/loadForRuns|wiring\/join(?:Broker|Console|Leases|Process|Rerun))\.js$/;

const changedMs = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

export async function bundleReading(root: string): Promise<void> {
  const services = join(root, "dist/services");
  const target = join(root, "dist/reading");
  const inputs = [
    join(root, "package-lock.json"),
    join(root, "package/reading.ts"),
    ...["schemas", "core", "services"].flatMap((layer) =>
      readdirSync(join(root, "dist", layer), { recursive: true, encoding: "utf8" })
        .filter((path) => path.endsWith(".js"))
        .map((path) => join(root, "dist", layer, path)),
    ),
  ];
  const madeMs = changedMs(join(target, "commandLine.js"));
  if (inputs.every((path) => changedMs(path) < madeMs)) return;
  rmSync(target, { recursive: true, force: true });
  await build({
    entryPoints: { commandLine: join(services, "cli/commandLine.js") },
    absWorkingDir: root,
    outdir: target,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20",
    // Names stay: they are in stacks that people send.
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: "none",
    logLevel: "error",
    // Packages of CommonJS ask for Node's own modules.
    banner: {
      js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
    },
    plugins: [
      {
        name: "what is not bundled",
        setup: ({ onResolve }) => {
          onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
            const file = resolve(resolveDir, path);
            return EXTERNAL.test(relative(services, file))
              ? { path: relative(target, file), external: true }
              : undefined;
          });
          // The engine finds its binary beside itself; optional peers are the user's, or absent.
          onResolve(
            { filter: /^(?:@sqlite\.org\/|@opentelemetry\/|@aws-sdk\/|uWebSockets\.js)/ },
            ({ path }) => ({
              path,
              external: true,
            }),
          );
        },
      },
    ],
  });
}
