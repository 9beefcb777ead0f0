/**
 * Runs a short-lived program to its end and returns how it ended, as a value. Bounds its time and
 * the output that is kept, because the finder runs binaries that it knows nothing about. The
 * long-lived server itself is a `ServerProcess`.
 */
import { spawn, type ChildProcess } from "node:child_process";

type ProgramEnd =
  | {
      readonly kind: "exited";
      readonly code: number;
      readonly stdout: string;
      readonly stderr: string;
    }
  | { readonly kind: "failed"; readonly why: string };

interface ProgramOptions {
  readonly timeoutMs: number;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly signal?: AbortSignal | undefined;
}

/** Enough for a version line, a digest list or apt's errors. Older output is dropped. */
const OUTPUT_CHARS_MAX = 64 * 1024;

/**
 * Never rejects. `exited` is a normal end with any code. A program that cannot be started, is
 * killed by a signal or takes longer than `timeoutMs` (it is then killed) is `failed`, with the
 * reason.
 */
export function runProgram(
  program: string,
  args: readonly string[],
  options: ProgramOptions,
): Promise<ProgramEnd> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      // A group of its own. The terminal's Ctrl-C would end the program before this process has
      // seen the key, and be reported as a program that does not run.
      detached: true,
      windowsHide: true,
      ...(options.env === undefined ? {} : { env: options.env }),
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    });
    let stdout = "";
    let stderr = "";
    const end = (result: ProgramEnd): void => {
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", abort);
      resolve(result);
    };
    const giveUp = (why: string): void => {
      killGroup(child);
      // Windows has no groups: the program's own children may keep the pipes open.
      child.stdout.destroy();
      child.stderr.destroy();
      end({ kind: "failed", why });
    };
    const abort = (): void => giveUp("interrupted");
    const timer = setTimeout(
      () => giveUp(`no end after ${options.timeoutMs / 1000} s`),
      options.timeoutMs,
    );
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout = (stdout + text).slice(-OUTPUT_CHARS_MAX);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(-OUTPUT_CHARS_MAX);
    });
    child.once("error", (error) => end({ kind: "failed", why: error.message }));
    child.once("close", (code, signal) => {
      if (code === null) end({ kind: "failed", why: `ended by ${String(signal)}` });
      else end({ kind: "exited", code, stdout, stderr });
    });
    if (options.signal?.aborted === true) abort();
    else options.signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Ends the program and its own children. */
function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return; // not started
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // The group has ended, or there are no groups here.
    child.kill("SIGKILL");
  }
}

/** The last `lines` non-empty lines, joined into one, for the reason of an error. */
export function lastLines(text: string, lines: number): string {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .slice(-lines)
    .join("; ");
}
