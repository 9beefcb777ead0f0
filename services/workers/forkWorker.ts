/**
 * Starts a worker: this program again, with the parent's log and output, and a channel to the
 * parent.
 */
import { fork } from "node:child_process";
import { readServing, type Serving, type WorkerEnd, type WorkerProcess } from "./WorkerProcess.ts";

/** `script` is the program, `args` its arguments. Node's own options are inherited. */
export function forkWorker(script: string, args: ReadonlyArray<string>): WorkerProcess {
  const child = fork(script, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const serving = new Promise<Serving>((resolve) =>
    child.on("message", (message) => {
      const told = readServing(message);
      if (told !== undefined) resolve(told);
    }),
  );
  const ended = new Promise<WorkerEnd>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    // An error is also emitted where a signal can't be sent. Only a process without a pid never
    // started.
    child.on("error", () => {
      if (child.pid === undefined) resolve({ code: null, signal: null });
    });
  });
  return {
    pid: child.pid,
    serving,
    ended,
    stop: () => {
      if (child.connected) child.disconnect();
    },
    kill: () => void child.kill("SIGKILL"),
  };
}
