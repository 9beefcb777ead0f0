/**
 * One target in a process of its own, for `main`: `runTarget.ts <target> <seconds> <seed> <file>`.
 * The input that is running is in the file, so that one which ends or hangs the process is known.
 * Says its result to the parent.
 */
import { ftruncateSync, openSync, writeSync } from "node:fs";
import { Coverage } from "./Coverage.ts";
import { fuzzTarget, type FuzzResult } from "./fuzzTarget.ts";

export interface TargetReport extends Omit<FuzzResult, "finding"> {
  readonly blocks: number;
  /** Undefined: all promises held. */
  readonly error?: string;
}

// Before what it watches is loaded: V8 counts blocks only of functions that it compiles afterwards.
const coverage = new Coverage();
const { targets } = await import("./targets/index.ts");

const [name, seconds, seed, file] = process.argv.slice(2);
const target = targets.find((each) => each.name === name);
if (target === undefined || file === undefined) throw new Error(`no target ${name}`);

const fd = openSync(file, "w");
let current: Uint8Array = Buffer.alloc(0);
const before = (input: Uint8Array): void => {
  current = input;
  writeSync(fd, input, 0, input.length, 0);
  ftruncateSync(fd, input.length);
};
const tell = (report: TargetReport): void => void process.send!(report, () => process.exit());
for (const event of ["uncaughtException", "unhandledRejection"] as const)
  process.on(event, (error: unknown) => {
    before(current);
    const text = error instanceof Error ? error.stack : String(error);
    tell({ executions: 0, corpus: 0, slowestMs: 0, blocks: 0, error: `${event}: ${text}` });
  });

const endMs = performance.now() + Number(seconds) * 1000;
const { finding, ...result } = await fuzzTarget(target, {
  seed: Number(seed),
  until: () => performance.now() > endMs,
  coverage,
  before,
});
if (finding !== undefined) before(finding.input);
tell({ ...result, blocks: coverage.size, ...(finding && { error: finding.error }) });
