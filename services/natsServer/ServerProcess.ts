/**
 * One run of a nats-server child process. Owns starting it (in its own session, with its output
 * appended to a log file), detecting when it serves, and ending it. `NatsServer` and the test kit
 * choose the binary and the configuration, guard the process (`Watchdog`), and react to its death.
 *
 * The process has its own session so that Ctrl-C reaches only this process: hosts need the server
 * for their hand-over while they stop.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import * as Data from "effect/Data";
import { lastLines } from "./runProgram.ts";

interface ServerProcessOptions {
  readonly binary: string;
  readonly configFile: string;
  /** The output is appended to it, and read from it for the reason of a failed start. */
  readonly logFile: string;
  readonly port: number;
  /** As in the configuration. Identifies this server among others that may listen on the port. */
  readonly serverName: string;
}

export interface ServerProcess {
  /** Undefined if the process could not be started; `exited` then has the reason. */
  readonly pid: number | undefined;
  /** Resolves when the process has ended, with a description of how. Never rejects. */
  readonly exited: Promise<string>;
  /** Sends a signal. False if the process has already ended. */
  readonly signal: (signal: NodeJS.Signals) => boolean;
  /** Sends SIGTERM, then SIGKILL after `graceMs`. Resolves when the process has ended. */
  readonly stop: (graceMs: number) => Promise<void>;
  /** Resolves once it greets clients. Rejects with `ServerDidNotStart` if it ends, or too late. */
  readonly serves: (timeoutMs: number) => Promise<void>;
}

/** The server process ended, or did not greet clients in time. `why` has the end of its log. */
export class ServerDidNotStart extends Data.TaggedError("ServerDidNotStart")<{
  readonly binary: string;
  readonly why: string;
  readonly logFile: string;
}> {
  override get message(): string {
    return `nats-server (${this.binary}) did not start: ${this.why}. Its log: ${this.logFile}`;
  }
}

/** A local connection is cheap, so this is short. */
const POLL_MS = 20;
/** Limit of one connection: a frozen or foreign listener must not use up the whole deadline. */
const GREETING_TIMEOUT_MS = 1_000;
/** The reason is nearly always in the last two lines. */
const LOG_LINES_SHOWN = 3;

/** Starts the process and returns at once: it may not serve yet (`serves`), or have failed. */
export function spawnServer(options: ServerProcessOptions): ServerProcess {
  const log = openSync(options.logFile, "a", 0o600);
  const child = spawn(options.binary, ["-c", options.configFile], {
    stdio: ["ignore", log, log],
    detached: true,
    windowsHide: true,
  });
  closeSync(log);
  child.unref(); // a running server must not keep this process alive

  let ended: string | undefined;
  const exited = new Promise<string>((resolve) => {
    const end = (how: string): void => resolve((ended ??= how));
    child.once("error", (error) => end(error.message));
    child.once("exit", (code, signal) =>
      end(signal === null ? `ended with code ${String(code)}` : `ended by ${signal}`),
    );
  });
  const signal = (name: NodeJS.Signals): boolean => ended === undefined && child.kill(name);

  return {
    pid: child.pid,
    exited,
    signal,
    stop: async (graceMs) => {
      signal("SIGTERM");
      const timer = setTimeout(() => signal("SIGKILL"), graceMs);
      await exited;
      clearTimeout(timer);
    },
    serves: async (timeoutMs) => {
      const deadlineMs = performance.now() + timeoutMs;
      while (!(await greetsAs(options.serverName, options.port))) {
        const late = performance.now() > deadlineMs ? "it does not greet clients" : undefined;
        const why = ended ?? late;
        if (why !== undefined) throw didNotStart(options, why);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
  };
}

function didNotStart(options: ServerProcessOptions, why: string): ServerDidNotStart {
  const said = lastLines(readFileSync(options.logFile, "utf8"), LOG_LINES_SHOWN);
  const { binary, logFile } = options;
  return new ServerDidNotStart({ binary, why: said === "" ? why : `${why} (${said})`, logFile });
}

/**
 * True if what listens on 127.0.0.1:`port` greets clients with `INFO` under this server name. The
 * server opens that port only after JetStream has recovered its streams.
 */
function greetsAs(serverName: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    let greeting = "";
    const socket = connect({ port, host: "127.0.0.1" });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(GREETING_TIMEOUT_MS, () => end(false));
    socket.setEncoding("utf8");
    socket.once("error", () => end(false));
    socket.once("close", () => end(false));
    socket.on("data", (text: string) => {
      greeting += text;
      if (!greeting.includes("\n")) return;
      end(greeting.startsWith("INFO ") && greeting.includes(`"server_name":"${serverName}"`));
    });
  });
}
