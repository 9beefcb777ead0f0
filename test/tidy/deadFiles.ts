/** Finds files that nothing imports, starts or names in `new URL("./x.ts")`. */
import { importsOf } from "./layering.ts";
import type { Finding } from "./rules.ts";
import type { SourceFile } from "./SourceFile.ts";

/** Started by name, not by import: tests, processes, configuration, examples. */
const STARTED = /\.test\.ts$|\/main\.ts$|^[^/]+\.config\.ts$|^examples\/[^/]+\/server\.ts$/;

export function deadFiles(
  files: ReadonlyArray<SourceFile>,
  entries: ReadonlySet<string>,
): Finding[] {
  const used = new Set(entries);
  for (const file of files)
    for (const { target } of importsOf(file))
      if (target !== undefined && target !== file.path) used.add(target);
  // Configuration names files by their path from the root.
  for (const { path, uncommented } of files.filter((file) => !file.path.includes("/")))
    for (const [, named] of uncommented.matchAll(/["'](?:\.\/)?([\w./-]+\.ts)["']/g))
      if (named !== path) used.add(named!);
  return files
    .filter(({ path }) => !used.has(path) && !STARTED.test(path))
    .map(({ path }) => ({ path, line: 1, message: "nothing imports it: use it or delete it" }));
}
