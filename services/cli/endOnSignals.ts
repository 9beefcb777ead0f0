/**
 * Ends a process with the id 1 on signals. The kernel drops every signal that a container's first
 * process has no listener for. A SIGTERM or Ctrl-C that arrives while modules are loaded, before
 * `stopSignals` listens, would be lost, and the container would be killed after its grace period.
 * With this file such a process ends as any other does. `deploy/Dockerfile` has Node import it
 * before main.ts, because all imports of main.ts are read before the first of them runs.
 */
import { exitOnSignal } from "./terminal/CliError.ts";

/** The id of a pid namespace's first process. */
const FIRST_PID = 1;

type Target = Pick<NodeJS.Process, "pid" | "on" | "listenerCount" | "exit">;

export function endOnSignals(target: Target): void {
  if (target.pid !== FIRST_PID) return;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    target.on(signal, () => {
      // If there are other listeners, they stop the process in order.
      if (target.listenerCount(signal) === 1) target.exit(exitOnSignal(signal));
    });
}

endOnSignals(process);
