#!/usr/bin/env node
/**
 * `agents`: joins the command line with the adapters and runs it. A command that runs agents starts
 * its first worker before anything else is imported: the two then import beside each other. A
 * worker is this program again, which learns its command line over its channel (`workerLink`).
 */
import { forkWorker, WORKER } from "../workers/forkWorker.ts";

const args = process.argv.slice(2);
const script = process.argv[1]!;

/**
 * Whether the command line starts workers. A guess: a wrong one costs a process that ends again.
 */
const startsWorkers = (): boolean =>
  (args[0] === "dev" || args[0] === "host") &&
  !args.some((arg) => ["-h", "--help", "-v", "--version"].includes(arg));

let early = startsWorkers() ? forkWorker(script) : undefined;
const link =
  args[0] === WORKER ? (await import("../workers/workerLink.ts")).workerLink() : undefined;

const [{ commandJoins, explain }, { runProgram }, { packageManifest }] = await Promise.all([
  import("../wiring/joinCommands.ts"),
  import("./program.ts"),
  import("./init/packageManifest.ts"),
]);
const { maskCommandLine } = await import("./commandLineSecrets.ts");
const { CliError, EXIT_FAILED } = await import("./terminal/CliError.ts");
const { processTerminal } = await import("./terminal/Terminal.ts");

/**
 * For output that is still on its way when a command has ended: the last lines, a server's last
 * messages.
 */
const LAST_WORDS_MS = 500;

const terminal = processTerminal();
const joins = commandJoins({
  link,
  startWorker: () => {
    const worker = early ?? forkWorker(script);
    early = undefined;
    return worker;
  },
});

async function run(commandLine: ReadonlyArray<string>): Promise<void> {
  const warning = maskCommandLine(commandLine);
  // The control process has said so already.
  if (warning !== undefined && link === undefined) terminal.err(warning);
  try {
    process.exitCode = await runProgram(commandLine, joins, terminal, packageManifest().version);
  } catch (error) {
    const message = explain(error);
    if (message !== "") terminal.err(`agents: ${message}`);
    process.exitCode = error instanceof CliError ? error.exitCode : EXIT_FAILED;
  }
}

if (link === undefined) await run(args);
else {
  joins.preload();
  const first = await Promise.race([link.begin, link.stopped]);
  if (typeof first !== "string") await run(first.args);
}
// A worker that no command has used.
early?.kill();
// Needed only where something else keeps the process: a timer of an agent's code, a turn that
// outlasted the stop.
setTimeout(() => process.exit(), LAST_WORDS_MS).unref();
