/** Finds exports that no other file imports, but for entries, tests and examples. */
import { importsOf } from "./layering.ts";
import type { Finding } from "./rules.ts";
import { lineOf, type SourceFile } from "./SourceFile.ts";

const EXPORT =
  /^export (?:(?:abstract|async|declare) )*(?:const|let|class|function\*?|interface|type) (\w+)/gm;
const CHECKED = /^(?:schemas|core|services|package)\//;
/** Passes on every export. */
const ALL = /^export \*/;
/** Names the exports that it takes. Any other import, such as `import()`, may take any. */
const NAMED = /^(?:import|export)\b[^]*\{/;

const wordsOf = (text: string): ReadonlyArray<string> => text.match(/\w+/g) ?? [];

export function deadExports(
  files: ReadonlyArray<SourceFile>,
  entries: ReadonlySet<string>,
): Finding[] {
  const taken = new Map<string, Set<string>>();
  for (const file of files)
    for (const { target, clause } of importsOf(file)) {
      if (target === undefined || target === file.path) continue;
      const names = taken.get(target) ?? new Set();
      taken.set(target, names);
      if (ALL.test(clause)) names.add("*");
      for (const name of wordsOf(NAMED.test(clause) ? clause : file.code)) names.add(name);
    }
  return files.flatMap(({ path, code }) =>
    !CHECKED.test(path) || entries.has(path) || taken.get(path)?.has("*")
      ? []
      : [...code.matchAll(EXPORT)]
          .filter(([, name]) => !taken.get(path)?.has(name!))
          .map(({ 1: name, index }) => {
            const message = `no other file imports ${name}: make it private, or delete it`;
            return { path, line: lineOf(code, index), message };
          }),
  );
}
