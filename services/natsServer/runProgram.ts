/**
 * Runs a short-lived program to its end and says how it ended, as a value: it never rejects. Bounded
 * in time and in what it keeps of the output, because the finder runs binaries that it knows nothing
 * about. The long-lived server itself is `ServerProcess`'s business.
 */
import { spawn } from "node:child_process";

export type ProgramEnd =
  | {
      readonly kind: "exited";
      readonly code: number;
      readonly stdout: string;
      readonly stderr: string;
    }
  | { readonly kind: "failed"; readonly why: string };

export interface ProgramOptions {
  readonly timeoutMs: number;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly signal?: AbortSignal | undefined;
}

/** Enough for any version line, digest list or apt complaint; more is dropped from the front. */
const OUTPUT_CHARS_MAX = 64 * 1024;

/**
 * `exited` means a normal end with any code; a program that cannot be started, is killed by a signal
 * or takes longer than `timeoutMs` (it is then killed) is `failed`, with the reason in words.
 */
export function runProgram(
  program: string,
  args: readonly string[],
  options: ProgramOptions,
): Promise<ProgramEnd> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
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
      child.kill("SIGKILL");
      // Its own children may keep the pipes open; they are of no more interest.
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

/** The last `lines` lines that say anything, on one line: for the reason in an error. */
export function lastLines(text: string, lines: number): string {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .slice(-lines)
    .join("; ");
}
