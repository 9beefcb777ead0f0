#!/usr/bin/env node
/**
 * `agents`: joins the command line with the adapters and runs it. A command that runs agents starts
 * its first worker before it imports anything else, so that the two import in parallel. A worker is
 * this program again, which receives its command line over its channel (`workerLink`).
 */
import { forkWorker, WORKER } from "../workers/forkWorker.ts";
import { packageManifest } from "../ownPackage/packageManifest.ts";

const args = process.argv.slice(2);
const script = process.argv[1]!;

/** Guesses whether the command line starts workers. A wrong guess costs one more process. */
const startsWorkers = (): boolean =>
  (args[0] === "dev" || args[0] === "host") &&
  !args.some((arg) => ["-h", "--help", "-v", "--version"].includes(arg));

let early = startsWorkers() ? forkWorker(script) : undefined;
const link =
  args[0] === WORKER ? (await import("../workers/workerLink.ts")).workerLink() : undefined;

const { commandLine } = await import("./commandLine.ts");

/** Time for output that is still being written when a command has ended: its last lines. */
const LAST_WORDS_MS = 500;

const { joins, run } = commandLine({
  link,
  startWorker: () => {
    const worker = early ?? forkWorker(script);
    early = undefined;
    return worker;
  },
  version: packageManifest().version,
});

if (link === undefined) await run(args);
else {
  joins.preload();
  const first = await Promise.race([link.begin, link.stopped]);
  if (typeof first !== "string") await run(first.args);
}
// The command did not use the worker.
early?.kill();
// Needed only if something else keeps the process alive: a timer of an agent's code, or a turn that
// outlasted the stop.
setTimeout(() => process.exit(), LAST_WORDS_MS).unref();
