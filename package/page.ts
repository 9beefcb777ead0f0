/**
 * Bundles the console's page (`services/consolePage`) with React into `dist/console`: one script
 * and one style, which `services/console/page` puts into its document. Left as it is while the
 * sources and the lock file are older.
 */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

/** Packages of which the page's script has parts. */
export const BUNDLED = ["react", "react-dom", "scheduler"];

/** 0 if there is no such file. */
export const changedMs = (path: string): number =>
  statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

export async function bundlePage(root: string): Promise<void> {
  const sources = join(root, "services/consolePage");
  const target = join(root, "dist/console");
  const inputs = [
    join(root, "package-lock.json"),
    join(root, "package/page.ts"),
    ...readdirSync(sources).map((file) => join(sources, file)),
  ];
  const madeMs = Math.min(...["page.js", "page.css"].map((file) => changedMs(join(target, file))));
  if (inputs.every((path) => changedMs(path) < madeMs)) return;
  await build({
    entryPoints: { page: join(sources, "main.tsx") },
    outdir: target,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    legalComments: "eof", // React's licence
    logLevel: "error",
  });
  await build({
    entryPoints: { page: join(sources, "style.css") },
    outdir: target,
    minify: true,
    logLevel: "error",
  });
}
