/** Starts a worker: this very program again, with its log and output where ours go, and a channel. */
import { fork } from "node:child_process";
import { readServing, type Serving, type WorkerEnd, type WorkerProcess } from "./WorkerProcess.ts";

/** `script` is the program; `args` what comes after it. Node's own options are ours. */
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
    // Also where a signal can't be sent; only who has no pid has never been.
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
