/**
 * A container's only process has the id 1, and the kernel drops every signal to it that it does not
 * listen to: a SIGTERM or Ctrl-C before untilStopped.ts listens, while modules are read, would be lost,
 * and the container killed when its grace has passed. Here such a process ends on them as any other
 * does. `deploy/Dockerfile` has Node import this before main.ts, all of whose imports are read before
 * the first of them runs.
 */
import { constants } from "node:os";

/** The id of a pid namespace's first process. */
const FIRST_PID = 1;
/** What shells add to a signal's number for the exit code of who was ended by it. */
const SIGNALLED = 128;

type Target = Pick<NodeJS.Process, "pid" | "on" | "listenerCount" | "exit">;

export function endOnSignals(target: Target): void {
  if (target.pid !== FIRST_PID) return;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    target.on(signal, () => {
      // Whoever else listens stops in order.
      if (target.listenerCount(signal) === 1) target.exit(SIGNALLED + constants.signals[signal]);
    });
}

endOnSignals(process);
