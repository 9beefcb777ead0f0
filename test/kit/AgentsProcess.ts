/**
 * One `agents` process for tests with its workers, from the built package as users run it: a
 * gateway or a host, killed, frozen, thawed and stopped at will, and gone when the test worker is
 * gone, however it went.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { startWatchdog, type Watchdog } from "../../services/natsServer/Watchdog.ts";
import { pollUntil } from "./poll.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
/** A cold start of Node, the module's transform and the first claims, on a machine that is busy. */
const START_TIMEOUT_MS = 90_000;
/** What orchestrators grant (`deploy/`). */
const STOP_TIMEOUT_MS = 30_000;
/** Becomes the program: it keeps the process id. */
const LIMIT_FILES = 'ulimit -n "$0" && exec "$@"';

export interface AgentsProcessOptions {
  /** The command and its arguments; `--admin-port 0` and `--log-format json` are added. */
  readonly args: ReadonlyArray<string>;
  readonly env?: Readonly<Record<string, string>>;
  /** Options of Node itself, e.g. `--expose-gc`. */
  readonly nodeArgs?: ReadonlyArray<string>;
  /** The program of another package. Default: the built one. */
  readonly main?: string | undefined;
  /** The most files that it may have open, connections included. Default: as this process. */
  readonly openFiles?: number;
}

export interface LogEntry {
  readonly level: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

export class AgentsProcess {
  readonly lines: LogEntry[] = [];
  /** What is no JSON line: stack traces of a crash. */
  noise = "";
  exitCode: number | null | undefined;
  private readonly child: ChildProcess;
  private readonly watchdog: Watchdog;
  private readonly ended: Promise<void>;

  private constructor(options: AgentsProcessOptions) {
    const { args, env = {}, nodeArgs = [], main = MAIN, openFiles } = options;
    const node = [process.execPath, ...nodeArgs, main];
    const limited = openFiles === undefined ? [] : ["sh", "-c", LIMIT_FILES, `${openFiles}`];
    const [program = "", ...rest] = [...limited, ...node, ...args, "--admin-port", "0"];
    this.child = spawn(program, [...rest, "--log-format", "json"], {
      env: { PATH: process.env["PATH"] ?? "", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true, // a group of its own: what kills it kills its workers
    });
    this.watchdog = startWatchdog();
    if (this.child.pid !== undefined) this.watchdog.guard(this.child.pid);
    let partial = "";
    const read = (chunk: Buffer): void => {
      const texts = (partial + chunk.toString()).split("\n");
      partial = texts.pop() ?? "";
      for (const text of texts) this.readLine(text);
    };
    this.child.stdout!.on("data", read);
    this.child.stderr!.on("data", read);
    this.ended = new Promise((resolve) =>
      this.child.once("close", (code) => {
        this.exitCode = code;
        this.watchdog.release();
        resolve();
      }),
    );
  }

  /** Resolves when it says that it serves; `ready()` is another matter. */
  static async start(options: AgentsProcessOptions): Promise<AgentsProcess> {
    const started = new AgentsProcess(options);
    try {
      await pollUntil(
        `agents ${options.args[0]} serves, or ends`,
        () =>
          started.exitCode !== undefined ||
          started.serving !== undefined || { done: false, saw: started.told() },
        { timeoutMs: START_TIMEOUT_MS },
      );
      if (started.serving === undefined)
        throw new Error(`agents ${options.args[0]} ended before it served: ${started.told()}`);
    } catch (error) {
      await started.kill();
      throw error;
    }
    return started;
  }

  /** The process in which code runs: its last worker, where it has workers. */
  get pid(): number {
    const started = this.lines.findLast((line) => line.message === "worker started");
    return (started?.["pid"] as number | undefined) ?? this.child.pid ?? 0;
  }

  /** A gateway's. */
  get url(): string {
    return String(this.serving?.["url"]).replace("0.0.0.0", "127.0.0.1");
  }

  /** Resolves when `/readyz` says so. */
  async ready(timeoutMs = START_TIMEOUT_MS): Promise<void> {
    await pollUntil(
      "the process is ready",
      async () => {
        const response = await this.admin("/readyz");
        return response.status === 200 || { done: false, saw: await response.text() };
      },
      { timeoutMs, intervalMs: 50 },
    );
  }

  async metrics(): Promise<string> {
    return (await this.admin("/metrics")).text();
  }

  /** Sum of a metric's series; 0 when it has none yet. */
  async metric(name: string): Promise<number> {
    const text = await this.metrics();
    const lines = [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "gm"))];
    return lines.reduce((sum, [, value]) => sum + Number(value), 0);
  }

  /** SIGSTOP to it and its workers: they do nothing, and their connections stay open. */
  freeze(): void {
    this.signalAll("SIGSTOP");
  }
  /** SIGCONT. */
  thaw(): void {
    this.signalAll("SIGCONT");
  }

  /** SIGKILL to it and its workers, as when the machine is gone, and waits for its end. */
  async kill(): Promise<void> {
    this.signalAll("SIGKILL");
    await this.ended;
  }

  /** SIGKILL to the control process only, and waits until its workers have ended, too. */
  async killControl(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  private signalAll(signal: NodeJS.Signals): void {
    if (this.child.pid === undefined) return;
    try {
      process.kill(-this.child.pid, signal);
    } catch {
      // It has ended.
    }
  }

  /** SIGTERM, and waits for its end in order. */
  async stop(): Promise<void> {
    this.child.kill("SIGTERM");
    await this.ended;
  }

  /** SIGTERM, and SIGKILL after what orchestrators grant: then with what it said last. */
  async stopInTime(): Promise<string | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<"late">((resolve) => {
      timer = setTimeout(resolve, STOP_TIMEOUT_MS, "late");
    });
    const ended = await Promise.race([this.stop(), late]);
    clearTimeout(timer);
    if (ended !== "late") return undefined;
    await this.kill();
    return this.told();
  }

  /** Its last lines, for errors. */
  told(): string {
    return this.lines.slice(-15).map((line) => JSON.stringify(line)).join("\n") + this.noise; // prettier-ignore
  }

  private get serving(): LogEntry | undefined {
    // A parent's own line: its workers' have their number.
    return this.lines.find((line) => line.message.endsWith(" serves") && !("worker" in line));
  }

  /** Asks its private port. */
  admin(path: string): Promise<Response> {
    return fetch(String(this.serving?.["admin"]) + path, { signal: AbortSignal.timeout(5_000) });
  }

  private readLine(text: string): void {
    if (process.env["AGENTS_TEST_LOG"]) console.error(this.pid, text);
    try {
      this.lines.push(JSON.parse(text) as LogEntry);
    } catch {
      this.noise += text + "\n";
    }
  }
}
