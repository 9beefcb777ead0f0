/** A serving command in its own process, whose system is a test double; a reload is visible. */
import { spawn, type ChildProcess } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { vi } from "vitest";
import { withoutLoading } from "../kit/runAgents.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const dist = (path: string): string => JSON.stringify(pathToFileURL(`${ROOT}dist/${path}`).href);

/** It starts a server and waits for leases, on a machine that may be busy. */
const PRINTED_MS_MAX = 60_000;

const PROGRAM = `
  import { createServer } from "node:http";
  import { fileURLToPath } from "node:url";
  import { runProgram } from ${dist("services/cli/program.js")};
  import { processTerminal } from ${dist("services/cli/terminal/Terminal.js")};
  import { machineTime } from ${dist("services/node/MachineTime.js")};
  import { processLog } from ${dist("services/node/ProcessLog.js")};
  import { forkWorker, WORKER } from ${dist("services/workers/forkWorker.js")};
  import { workerLink } from ${dist("services/workers/workerLink.js")};
  const start = async (settings) => {
    if (process.env.FAIL_START) throw new Error("no broker");
    let { module, env } = settings;
    settings.metrics.counter("starts_total", "Starts")();
    const answer = (_request, response) =>
      response.end(JSON.stringify({ says: [...module.agents.values()][0].says, env: env.SECRET }));
    const server = createServer(answer);
    await new Promise((done) => server.listen(settings.port, settings.hostname, done));
    return {
      port: server.address().port,
      natsUrl: settings.natsUrl ?? "nats://own",
      natsSummary: "a double",
      readiness: () => ({ ready: true }),
      reload: async (next, itsEnv) => void (module = next, env = itsEnv),
      stop: async () => {
        console.log("stop");
        if (process.env.HANG) await new Promise((done) => setTimeout(done, 60_000));
        server.close();
        server.closeAllConnections();
      },
    };
  };
  const begin = async () => ({ start, abandon: async () => console.log("abandoned") });
  const link = process.argv[2] === WORKER ? workerLink() : undefined;
  const args = link === undefined ? process.argv.slice(2) : (await link.begin).args;
  const joins = {
    time: machineTime, log: processLog, begin, link,
    startWorker: () => forkWorker(fileURLToPath(import.meta.url)),
    openBroker: async () => ({ url: "nats://own", summary: "a double", stop: async () => {} }),
    serveConsole: async () => ({ port: 1, stop: async () => {} }),
    openLeases: () => Promise.reject(new Error("no broker")),
  };
  try {
    process.exitCode = await runProgram(args, joins, processTerminal(), "1");
  } catch (error) {
    if (error.message !== "") console.error(error.message);
    process.exitCode = error.exitCode ?? 1;
  }
`;

export class DevProcess {
  readonly child: ChildProcess;
  private readonly folder = tempFolder("dev-process");
  readonly ended: Promise<number | null>;
  out = "";
  err = "";

  /** `shell`: what runs it at a terminal of its own, whose keys are written to `child.stdin`. */
  constructor(
    args: readonly string[],
    cwd: string,
    env: Readonly<Record<string, string>> = {},
    shell?: (command: string) => string,
  ) {
    const program = join(this.folder.path, "program.mjs");
    writeFileSync(program, PROGRAM);
    const command = [process.execPath, program, ...args];
    const [file = "", ...rest] =
      shell === undefined ? command : ["script", "-qefc", shell(command.join(" ")), "/dev/null"];
    this.child = spawn(file, rest, {
      detached: true, // a group of its own: what kills it kills its worker
      cwd,
      env: { PATH: process.env["PATH"] ?? "", ...env },
      stdio: [shell === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
    this.child.stdout!.on("data", (chunk: Buffer) => (this.out += chunk.toString()));
    this.child.stderr!.on("data", (chunk: Buffer) => (this.err += chunk.toString()));
    this.ended = new Promise((done) => this.child.once("close", done));
  }

  /** What it printed on stderr, whatever the machine's speed. */
  get errors(): string {
    return withoutLoading(this.err);
  }

  /** The first group of `pattern` in what it has printed, once it has. */
  async printed(pattern: RegExp): Promise<string> {
    return vi.waitFor(() => {
      const match = pattern.exec(this.out + this.err);
      if (match === null) throw new Error(`not printed: ${pattern}\n${this.out}${this.err}`);
      return match[1] ?? match[0];
    }, PRINTED_MS_MAX);
  }

  /** Ends it in any case. */
  async kill(): Promise<void> {
    try {
      process.kill(-this.child.pid!, "SIGKILL");
    } catch {
      // It has ended.
    }
    await this.ended;
    this.folder.remove();
  }
}
