/**
 * A serving command in a process of its own, from the built package, with a double in place of the
 * system: it answers HTTP with what its module's first agent says, so that a reload can be seen.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { vi } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const dist = (path: string): string => JSON.stringify(pathToFileURL(`${ROOT}dist/${path}`).href);

/** It starts a server and waits for leases, on a machine that may be busy elsewhere. */
const PRINTED_MS_MAX = 60_000;

const PROGRAM = `
  import { createServer } from "node:http";
  import { runProgram } from ${dist("services/cli/program.js")};
  import { processTerminal } from ${dist("services/cli/terminal/Terminal.js")};
  import { machineTime } from ${dist("services/node/MachineTime.js")};
  import { processLog } from ${dist("services/node/ProcessLog.js")};
  const start = async (settings) => {
    if (process.env.FAIL_START) throw new Error("no broker");
    let { module } = settings;
    settings.metrics.counter("starts_total", "Starts")();
    const answer = (_request, response) =>
      response.end(JSON.stringify({ says: [...module.agents.values()][0].says, env: settings.env.SECRET }));
    const server = createServer(answer);
    await new Promise((done) => server.listen(settings.port, settings.hostname, done));
    return {
      port: server.address().port,
      natsUrl: settings.natsUrl ?? "nats://own",
      natsSummary: "a double",
      readiness: () => ({ ready: true }),
      reload: async (next) => void (module = next),
      stop: async () => {
        console.log("stop");
        if (process.env.HANG) await new Promise((done) => setTimeout(done, 60_000));
        server.close();
        server.closeAllConnections();
      },
      failed: new Promise(() => {}),
    };
  };
  const begin = async () => ({ start, abandon: async () => console.log("abandoned") });
  try {
    process.exitCode = await runProgram(process.argv.slice(1), { time: machineTime, log: processLog, begin }, processTerminal(), "1");
  } catch (error) {
    console.error(error.message);
    process.exitCode = error.exitCode ?? 1;
  }
`;

export class DevProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  out = "";
  err = "";

  constructor(args: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) {
    this.child = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM, "--", ...args], {
      cwd,
      env: { PATH: process.env["PATH"] ?? "", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child.stdout!.on("data", (chunk: Buffer) => (this.out += chunk.toString()));
    this.child.stderr!.on("data", (chunk: Buffer) => (this.err += chunk.toString()));
    this.ended = new Promise((done) => this.child.once("close", done));
  }

  /** The first group of `pattern` in what it has printed, once it has. */
  async printed(pattern: RegExp): Promise<string> {
    return vi.waitFor(() => {
      const match = pattern.exec(this.out + this.err);
      if (match === null) throw new Error(`not printed: ${pattern}\n${this.out}${this.err}`);
      return match[1] ?? match[0];
    }, PRINTED_MS_MAX);
  }

  /** Ends it whatever it does. */
  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.ended;
  }
}
