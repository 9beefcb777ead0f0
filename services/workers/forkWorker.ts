/**
 * Starts a worker: this program again, with the control process's log and output, a channel, and a
 * pipe for what its watchdog reports. It imports little: `main.ts` starts the first worker before
 * it imports anything else.
 */
import { fork, type ChildProcess } from "node:child_process";
import type { Readable } from "node:stream";
import { workerNodeArgs } from "../node/heapLimit.ts";
import { reportReader, type WatchdogReport } from "../watchdog/reports.ts";
import { readServing, type Serving } from "./messages.ts";
import type { WorkerEnd, WorkerProcess } from "./WorkerProcess.ts";

/** The only argument of a worker. It receives its task over the channel. */
export const WORKER = "worker";

/** How long what a process has reported can be on its way when it has ended. */
const REPORTS_MS_MAX = 500;

/** `script` is the program. Node's own options are inherited (`workerNodeArgs`). */
export function forkWorker(script: string): WorkerProcess {
  const child = fork(script, [WORKER], {
    execArgv: workerNodeArgs(),
    stdio: ["ignore", "inherit", "inherit", "ipc", "pipe"],
  });
  const serving = new Promise<Serving>((resolve) =>
    child.on("message", (message) => {
      const told = readServing(message);
      if (told !== undefined) resolve(told);
    }),
  );
  const pipe = child.stdio[4] as Readable | null | undefined;
  const onReport: Array<(report: WatchdogReport) => void> = [];
  pipe?.setEncoding("utf8");
  pipe?.on(
    "data",
    reportReader((report) => {
      for (const each of onReport) each(report);
    }),
  );
  const ended = endOf(child, pipe);
  let isAsked = false;
  const send: WorkerProcess["send"] = (message) => {
    if (child.connected) child.send(message, () => undefined);
  };
  return {
    pid: child.pid,
    serving,
    ended,
    send,
    onMessage: (f) => void child.on("message", f),
    onReport: (f) => void onReport.push(f),
    stop: () => {
      if (isAsked) return;
      isAsked = true;
      send({ stop: true });
    },
    terminate: () => void child.kill("SIGTERM"),
    kill: () => void child.kill("SIGKILL"),
  };
}

/** Resolves when the process has ended and its reports have been read. */
const endOf = (child: ChildProcess, pipe: Readable | null | undefined): Promise<WorkerEnd> =>
  new Promise((resolve) => {
    child.once("exit", (code, signal) => {
      const end = (): void => resolve({ code, signal });
      // A process that the worker started may hold the pipe open.
      const late = setTimeout(end, REPORTS_MS_MAX);
      const over = (): void => {
        clearTimeout(late);
        end();
      };
      if (pipe == null || pipe.readableEnded) over();
      else pipe.once("close", over);
    });
    // An error is also emitted where a signal can't be sent. Only a process without a pid never
    // started.
    child.on("error", () => {
      if (child.pid === undefined) resolve({ code: null, signal: null });
    });
  });
