import { mkdirSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { watchModule, type ModuleWatch } from "../../services/module/watchModule.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const time = {
  after: (ms: number, f: () => void) => {
    const timer = setTimeout(f, ms);
    return () => clearTimeout(timer);
  },
};
let folder: string;
let watcher: ModuleWatch;
let reports: string[][];
const at = (path: string): string => join(folder, path);
const start = (...files: string[]): void => startSince(Infinity, files);
const startSince = (sinceMs: number, files: ReadonlyArray<string>): void => {
  watcher = watchModule({
    files: files.map(at),
    sinceMs,
    time,
    onChange: (changed) => reports.push([...changed]),
  });
};
/** Polls until the reports are what is expected; shows them when they never are. */
const seen = (expected: string[][]): Promise<void> =>
  vi.waitFor(() => expect(reports).toEqual(expected.map((files) => files.map(at))), 60_000);

beforeEach(() => {
  folder = tempFolder("watch").path;
  mkdirSync(at("lib"));
  for (const name of ["a.ts", "lib/b.ts", "other.ts"]) writeFileSync(at(name), "1");
  reports = [];
});
afterEach(() => {
  watcher.close();
});

it("a change of any watched file is reported once, other files are not", async () => {
  start("a.ts", "lib/b.ts");
  writeFileSync(at("other.ts"), "22");
  writeFileSync(at("lib/b.ts"), "2");
  writeFileSync(at("lib/b.ts"), "22");
  writeFileSync(at("lib/b.ts"), "222");
  await seen([["lib/b.ts"]]);
});

it("reports a save between load and watch, and none before the load", async () => {
  const sinceMs = 1_000_000;
  utimesSync(at("lib/b.ts"), sinceMs / 1000, sinceMs / 1000);
  startSince(sinceMs, ["a.ts", "lib/b.ts", "absent.ts"]);
  await seen([["a.ts"]]);
  writeFileSync(at("lib/b.ts"), "22");
  await seen([["a.ts"], ["lib/b.ts"]]);
});

it("files that are saved together are reported once", async () => {
  start("a.ts", "lib/b.ts");
  writeFileSync(at("a.ts"), "22");
  writeFileSync(at("lib/b.ts"), "22");
  await seen([["a.ts", "lib/b.ts"]]);
});

it("a file replaced by rename is seen, and again after that", async () => {
  start("a.ts");
  for (const round of [1, 2]) {
    writeFileSync(at("a.tmp"), "x".repeat(round + 1));
    renameSync(at("a.tmp"), at("a.ts"));
    await seen(Array.from({ length: round }, () => ["a.ts"]));
  }
});

it("a missing file is reported when it appears, and follow replaces the watched files", async () => {
  start("new.ts");
  writeFileSync(at("new.ts"), "1");
  await seen([["new.ts"]]);
  watcher.follow([at("a.ts")]);
  writeFileSync(at("new.ts"), "22");
  writeFileSync(at("a.ts"), "22");
  await seen([["new.ts"], ["a.ts"]]);
});

it("a change is not lost when the watched files are replaced", async () => {
  start("a.ts");
  writeFileSync(at("a.ts"), "22");
  watcher.follow([at("a.ts"), at("lib/b.ts")]);
  await seen([["a.ts"]]);
});

it("a file in a folder that can't be watched is polled", async () => {
  start("a.ts", "later/c.ts");
  mkdirSync(at("later"));
  writeFileSync(at("later/c.ts"), "1");
  await seen([["later/c.ts"]]);
  writeFileSync(at("later/c.ts"), "22");
  await seen([["later/c.ts"], ["later/c.ts"]]);
});
