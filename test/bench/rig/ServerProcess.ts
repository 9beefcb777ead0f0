/** A process that a bench measures: starts it, reads its CPU time, stops it, or shows its end. */
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { pollUntil } from "../../kit/poll.ts";
import { BenchFailed } from "../Bench.ts";

/** Claiming 64 shards on a busy machine included. */
const READY_TIMEOUT_MS = 60_000;
/** A process that drains its turns and writes its profile. */
const STOP_TIMEOUT_MS = 20_000;
const OUTPUT_CHARACTERS_KEPT = 4_000;
/** Linux's `sysconf(_SC_CLK_TCK)`, the unit of times in /proc. */
const TICKS_PER_SECOND = 100;

/** Node options for a program of ours that is not built. */
export const RUN_SOURCE = ["--conditions=agents-source", "--import", "tsx"];

export interface ServerProcessOptions {
  readonly name: string;
  readonly args: ReadonlyArray<string>;
  /** Default: this Node. */
  readonly command?: string;
  /** The user that it runs as; default: this process's user. */
  readonly uid?: number;
  readonly gid?: number;
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

export class ServerProcess {
  readonly name: string;
  private readonly child: ChildProcess;
  private readonly ended: Promise<void>;
  private output = "";

  constructor({ name, args, cwd, env, command, ...user }: ServerProcessOptions) {
    this.name = name;
    this.child = spawn(command ?? process.execPath, args, {
      ...user,
      cwd,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.on("data", (chunk: Buffer) => {
        this.output = (this.output + chunk.toString()).slice(-OUTPUT_CHARACTERS_KEPT);
      });
    this.ended = new Promise((resolve) => this.child.once("close", () => resolve()));
  }

  /** Resolves when `isReady` says so. Rejects when the process ends before. */
  async ready(isReady: (output: string) => boolean | Promise<boolean>): Promise<void> {
    let dead = false;
    void this.ended.then(() => (dead = true));
    await pollUntil(
      `${this.name} is ready`,
      async () => dead || (await isReady(this.output)) || { done: false, saw: this.output },
      { timeoutMs: READY_TIMEOUT_MS },
    );
    if (dead) throw new BenchFailed(`${this.name} ended before it was ready:\n${this.output}`);
  }

  /** Processor time used so far, its workers' too; undefined where there is no /proc. */
  get cpuSeconds(): number | undefined {
    const own = cpuSeconds(this.child.pid);
    if (own === undefined) return undefined;
    return childrenOf(this.child.pid).reduce((sum, pid) => sum + (cpuSeconds(pid) ?? 0), own);
  }

  async stop(): Promise<void> {
    this.child.kill("SIGTERM");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await this.ended;
    clearTimeout(timer);
  }
}

function childrenOf(pid: number | undefined): ReadonlyArray<number> {
  const list = `/proc/${pid}/task/${pid}/children`;
  // A kernel without it counts no workers.
  return existsSync(list) ? readFileSync(list, "utf8").split(" ").filter(Boolean).map(Number) : [];
}

export function cpuSeconds(pid: number | undefined): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // After the name in parentheses, which may hold spaces: state is the 3rd field, utime the 14th.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return undefined; // not Linux, or it has ended: the column stays empty
  }
}
