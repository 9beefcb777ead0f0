/** The heap that a worker is given, and the part of it that it keeps to. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { getHeapStatistics } from "node:v8";
import { heapLimit, workerNodeArgs } from "../../services/node/heapLimit.ts";

const { execArgv } = process;
const options = process.env["NODE_OPTIONS"];

beforeEach(() => {
  process.execArgv = ["--enable-source-maps"];
  delete process.env["NODE_OPTIONS"];
});
afterEach(() => {
  process.execArgv = execArgv;
  if (options === undefined) delete process.env["NODE_OPTIONS"];
  else process.env["NODE_OPTIONS"] = options;
});

/** Megabytes that V8 is told for a worker. */
const toldMb = (): number => {
  const [first, last, ...more] = workerNodeArgs().filter((arg) => !arg.includes("_"));
  expect([first, more]).toEqual(["--enable-source-maps", []]);
  return Number(/^--max-old-space-size=(\d+)$/.exec(last!)![1]);
};

test.each([
  ["NODE_OPTIONS", "--max-old-space-size=200"],
  [
    "NODE_OPTIONS in other words",
    "--no-warnings --max_old_space_size=100 --max-old-space-size=200",
  ],
])("a limit in %s is the worker's, with room for V8", (_name, given) => {
  process.env["NODE_OPTIONS"] = given;
  expect(heapLimit(toldMb())).toBe(200);
});

test("a limit on the command line comes before that of the environment", () => {
  process.env["NODE_OPTIONS"] = "--max-old-space-size=100";
  process.execArgv = ["--enable-source-maps", "--max_old_space_size=200"];
  expect(heapLimit(toldMb())).toBe(200);
});

test("without a limit it is V8's default", () => {
  const defaultMb = getHeapStatistics().heap_size_limit / 1024 / 1024;
  expect(heapLimit(toldMb())).toBeCloseTo(defaultMb, -1);
});
