/**
 * Finds import circles: files that import themselves by way of others, and folders that do. Type
 * imports count, because a reader follows them like any other. A circle can't be read from one end
 * to the other, and none of its files can be understood, tested or moved alone.
 */
import { posix } from "node:path";
import { importsOf } from "./layering.ts";
import type { Finding } from "./rules.ts";
import type { SourceFile } from "./SourceFile.ts";

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

const SOURCES = /^(?:schemas|core|services)\//;

/** One finding for each circle, at a file that takes part in it. */
export function circles(files: ReadonlyArray<SourceFile>): Finding[] {
  const imports = importGraph(files.filter(({ path }) => SOURCES.test(path)));
  return [
    ...circlesIn(imports).map((circle) => finding(circle[0]!, circle)),
    ...circlesIn(folderGraph(imports)).map((circle) => finding(importer(imports, circle), circle)),
  ];
}

const finding = (path: string, circle: ReadonlyArray<string>): Finding => ({
  path,
  line: 1,
  message: `${[...circle, circle[0]].join(" → ")}: declare a narrow interface in the file that needs it, or move what both need below them`,
});

function importGraph(files: ReadonlyArray<SourceFile>): Graph {
  const known = new Set(files.map(({ path }) => path));
  return new Map(
    files.map((file) => {
      const targets = importsOf(file).map(({ target }) => target);
      return [file.path, new Set(targets.filter((target) => target && known.has(target)))];
    }),
  ) as Graph;
}

function folderGraph(imports: Graph): Graph {
  const graph = new Map<string, Set<string>>();
  for (const [path, targets] of imports) {
    const from = posix.dirname(path);
    const folders = graph.get(from) ?? new Set();
    graph.set(from, folders);
    for (const target of targets)
      if (posix.dirname(target) !== from) folders.add(posix.dirname(target));
  }
  return graph;
}

/** A file of the circle's first folder that imports its second. */
function importer(imports: Graph, [from, to]: ReadonlyArray<string>): string {
  for (const [path, targets] of imports)
    if (posix.dirname(path) === from)
      for (const target of targets) if (posix.dirname(target) === to) return path;
  return from!;
}

/** A shortest circle for each node that has one, without those that share an earlier node. */
function circlesIn(graph: Graph): string[][] {
  const taken = new Set<string>();
  const found: string[][] = [];
  for (const node of [...graph.keys()].toSorted()) {
    const circle = taken.has(node) ? undefined : shortestFrom(graph, node);
    if (circle === undefined) continue;
    for (const each of circle) taken.add(each);
    found.push(circle);
  }
  return found;
}

/** Breadth first, from the node back to itself. */
function shortestFrom(graph: Graph, start: string): string[] | undefined {
  const before = new Map<string, string>();
  const queue = [start];
  for (const node of queue)
    for (const next of graph.get(node) ?? []) {
      if (next === start) return pathTo(before, start, node);
      if (before.has(next)) continue;
      before.set(next, node);
      queue.push(next);
    }
  return undefined;
}

function pathTo(before: ReadonlyMap<string, string>, start: string, end: string): string[] {
  const path = [end];
  while (path[0] !== start) path.unshift(before.get(path[0]!)!);
  return path;
}
