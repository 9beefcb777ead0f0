#!/usr/bin/env node
/**
 * `agents`: joins the command line with the adapters and runs it. Adapters are imported when a
 * command needs them, so that `--help` is quick.
 */
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { machineTime } from "../node/MachineTime.ts";
import { processLog } from "../node/ProcessLog.ts";
import type { Begun, BrokerSettings, Joins } from "../wiring/Joins.ts";
import { forkWorker } from "../workers/forkWorker.ts";
import { maskCommandLine } from "./commandLineSecrets.ts";
import { packageManifest } from "./init/packageManifest.ts";
import { runProgram } from "./program.ts";
import { CliError, EXIT_FAILED } from "./terminal/CliError.ts";
import { processTerminal } from "./terminal/Terminal.ts";

const joins: Joins = {
  time: machineTime,
  log: processLog,
  openReader: async (target) => (await import("../wiring/joinReader.ts")).openReader(target),
  serveConsole: async (source, settings) =>
    (await import("../wiring/joinConsole.ts")).serveConsole(source, settings),
  provision: async (target, settings) =>
    (await import("../wiring/joinReader.ts")).provisionTarget(target, settings),
  rerunOn: async (code) => (await import("../wiring/joinRerun.ts")).rerunOn(code),
  begin,
  startWorker: (args) => forkWorker(process.argv[1]!, args),
};

async function begin(settings: BrokerSettings): Promise<Begun> {
  const { openBroker } = await import("../wiring/joinBroker.ts");
  const broker = openBroker(settings);
  // Whoever awaits the broker receives the rejection.
  broker.catch(() => undefined);
  const { startProcess } = await import("../wiring/joinProcess.ts");
  return {
    start: (process) => startProcess(process, broker),
    abandon: () =>
      broker.then(
        (opened) => opened.stop(),
        () => undefined,
      ),
  };
}

/** The text for people: the message of an expected failure, the stack of a defect. */
function explain(error: unknown): string {
  if (error instanceof BrokerUnavailable) return `The broker can't be reached: ${error.message}`;
  if (error instanceof Error && "_tag" in error && error.message !== "") return error.message;
  return error instanceof Error ? (error.stack ?? String(error)) : String(error);
}

/**
 * For output that is still on its way when a command has ended: the last lines, a server's last
 * messages.
 */
const LAST_WORDS_MS = 500;

const terminal = processTerminal();
const args = process.argv.slice(2);
const warning = maskCommandLine(args);
if (warning !== undefined) terminal.err(warning);
try {
  process.exitCode = await runProgram(args, joins, terminal, packageManifest().version);
} catch (error) {
  terminal.err(`agents: ${explain(error)}`);
  process.exitCode = error instanceof CliError ? error.exitCode : EXIT_FAILED;
}
// Needed only where something else keeps the process: a timer of an agent's code, a turn that
// outlasted the stop.
setTimeout(() => process.exit(), LAST_WORDS_MS).unref();
