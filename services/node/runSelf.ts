/**
 * Runs this program once more, with another command line, and collects what it prints. For a
 * command that loads a module's code on behalf of a process that goes on: the console.
 */
import { spawn } from "node:child_process";

export interface RanSelf {
  /** Undefined: a signal ended it, and what it printed may be a part. */
  readonly code: number | undefined;
  readonly signal: NodeJS.Signals | undefined;
  readonly out: string;
  readonly err: string;
  /** It was ended because it printed more than `OUT_CHARACTERS_MAX`. */
  readonly tooLarge?: boolean;
  /** It was ended because it took longer than `limitMs`. */
  readonly late?: boolean;
}

/** All of it is in the caller's memory. */
const OUT_CHARACTERS_MAX = 128 * 2 ** 20;

/** `env` is added to this process's. Rejects where no process can be started. */
export function runSelf(
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
  limitMs?: number,
): Promise<RanSelf> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...process.execArgv, process.argv[1]!, ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [out, err] = ["", ""];
    let [tooLarge, late] = [false, false];
    const end = (): void => void (late = child.kill("SIGKILL"));
    const timer = limitMs === undefined ? undefined : setTimeout(end, limitMs);
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      tooLarge ||= out.length + text.length > OUT_CHARACTERS_MAX;
      if (tooLarge) child.kill("SIGKILL");
      else out += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
    child.once("error", reject);
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ code: code ?? undefined, signal: signal ?? undefined, out, err, tooLarge, late });
    });
  });
}
