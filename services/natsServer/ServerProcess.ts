/**
 * One run of a nats-server child process, from its start to its end. Owns starting it (in a session
 * of its own, its output appended to a log file), knowing when it really serves, and ending it. Leaves
 * to `NatsServer` and the test kit which binary and configuration, who guards it (`Watchdog`), and what
 * to do when it dies.
 *
 * It is in its own session so that a Ctrl-C reaches us and not it: hosts hand over through it while
 * they stop.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import * as Data from "effect/Data";
import { lastLines } from "./runProgram.ts";

export interface ServerProcessOptions {
  readonly binary: string;
  readonly configFile: string;
  /** Appended to, and read back for the reason if the server does not come up. */
  readonly logFile: string;
  readonly port: number;
  /** As in the configuration: by it we know that what answers on the port is this server. */
  readonly serverName: string;
}

export interface ServerProcess {
  /** Undefined if it could not even be started; `exited` then says why. */
  readonly pid: number | undefined;
  /** Resolves when the process has ended, with how, in words; never rejects. */
  readonly exited: Promise<string>;
  /** Sends a signal; false if it has already ended. */
  readonly signal: (signal: NodeJS.Signals) => boolean;
  /** SIGTERM, SIGKILL after `graceMs`; resolves when it has ended. Fine after its end. */
  readonly stop: (graceMs: number) => Promise<void>;
  /** Resolves once it greets clients; after its end or `timeoutMs` it rejects, `ServerDidNotStart`. */
  readonly serves: (timeoutMs: number) => Promise<void>;
}

/** The server process ended or stayed silent before it served; `why` has the end of its log. */
export class ServerDidNotStart extends Data.TaggedError("ServerDidNotStart")<{
  readonly binary: string;
  readonly why: string;
  readonly logFile: string;
}> {
  override get message(): string {
    return `nats-server (${this.binary}) did not start: ${this.why}. Its log: ${this.logFile}`;
  }
}

/** Local and cheap to ask: short enough that nobody waits for it. */
const POLL_MS = 20;
/** One answer to one connection; a frozen or foreign listener must not use up the whole deadline. */
const GREETING_TIMEOUT_MS = 1_000;
/** The reason is nearly always in its last two lines. */
const LOG_LINES_SHOWN = 3;

/** Returns at once: the process may not serve yet (`serves`), or may already have failed. */
export function spawnServer(options: ServerProcessOptions): ServerProcess {
  const log = openSync(options.logFile, "a", 0o600);
  const child = spawn(options.binary, ["-c", options.configFile], {
    stdio: ["ignore", log, log],
    detached: true,
    windowsHide: true,
  });
  closeSync(log);
  child.unref(); // what keeps us alive is our own affair, not that a server runs

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
        const late = performance.now() > deadlineMs ? "it greets no clients" : undefined;
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
