/**
 * `npm run fuzz -- [target …] [--all] [--seconds 60] [--seed 1]`: fuzzes the parsers of outside
 * bytes, each in a process of its own, and says how many inputs ran. What breaks a promise is
 * written to test/fuzz/kept/<target>/, where the suite replays it from then on, and the exit code
 * is 1. Without a target it lists them.
 */
import { fork } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { tempFolder } from "../kit/tempFolder.ts";
import { INPUT_MS_MAX, keptPath } from "./fuzzTarget.ts";
import type { TargetReport } from "./runTarget.ts";
import { targets } from "./targets/index.ts";

/** Starting, compiling and stopping a target on a busy machine. */
const AROUND_MS = 60_000;
const SHOWN_LINES = 12;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    all: { type: "boolean", default: false },
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
  },
});
const names = values.all ? targets.map(({ name }) => name) : positionals;
const unknown = names.filter((name) => !targets.some((target) => target.name === name));
const seconds = Number(values.seconds);
const seed = Number(values.seed);
if (unknown.length > 0 || names.length === 0 || !(seconds > 0) || !Number.isInteger(seed)) {
  if (unknown.length > 0) console.error(`no target ${unknown.join(", ")}`);
  console.error("npm run fuzz -- [target …] [--all] [--seconds 60] [--seed 1]; targets:");
  for (const { name } of targets) console.error(`  ${name}`);
  process.exit(2);
}

const folder = tempFolder("fuzz");
let found = 0;
let executions = 0;
for (const name of names) {
  const file = join(folder.path, name);
  const report = await run(name, file);
  executions += report.executions;
  const figures = `${report.executions} inputs, ${report.blocks} blocks, corpus ${report.corpus}, slowest ${report.slowestMs.toFixed(0)} ms`;
  console.log(`${name.padEnd(14)} ${figures}${report.error === undefined ? "" : ", BROKEN"}`);
  if (report.error === undefined) continue;
  found++;
  const kept = keptPath(name, readFileSync(file));
  mkdirSync(dirname(kept), { recursive: true });
  copyFileSync(file, kept);
  console.log(`  ${relative(process.cwd(), kept)}`);
  for (const line of report.error.split("\n").slice(0, SHOWN_LINES)) console.log(`  ${line}`);
}
rmSync(folder.path, { recursive: true, force: true });
console.log(`${names.length} targets, ${executions} inputs, ${found} broken (seed ${seed}, ${seconds} s each)`); // prettier-ignore
process.exit(found > 0 ? 1 : 0);

/** Resolves also when the process ends without a word, or does not end. */
function run(name: string, file: string): Promise<TargetReport> {
  const script = fileURLToPath(new URL("./runTarget.ts", import.meta.url));
  const child = fork(script, [name, String(seconds), String(seed), file], { serialization: "advanced" }); // prettier-ignore
  const lost = (error: string) => ({ executions: 0, corpus: 0, slowestMs: 0, blocks: 0, error });
  return new Promise((resolve) => {
    let report: TargetReport | undefined;
    const hung = setTimeout(
      () => {
        report ??= lost("it hangs: the process did not end in time");
        child.kill("SIGKILL");
      },
      seconds * 1000 + INPUT_MS_MAX + AROUND_MS,
    );
    child.on("message", (message) => (report ??= message as TargetReport));
    child.on("close", (code, signal) => {
      clearTimeout(hung);
      resolve(report ?? lost(`the process ended: ${signal ?? `code ${code}`}`));
    });
  });
}
