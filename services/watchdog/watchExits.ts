/**
 * Notices when code of this process ends it: by `process.exit()`, `process.abort()`, a signal to
 * itself, and what else leads to the same. `startWatchdog` logs whose code it was, and `watchLoad`
 * that of a module that loads.
 */
import { constants } from "node:os";

/** Signals that end a process, or freeze it until it is ended for that, by name and by number. */
const FATAL: ReadonlySet<unknown> = new Set(
  (["SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGABRT", "SIGSEGV"] as const)
    .map((name) => [name, constants.signals[name]]).flat(),
); // prettier-ignore

/**
 * Calls `report` before the code of this process ends it. `stack`: of that call, as lines; they may
 * be all the runtime's.
 */
export function watchExits(report: (how: string, stack: string) => void): () => void {
  const onEnd = (how: string): void => report(how, stackAbove());
  // `process.exit()` calls `reallyExit` by its name, in every release of Node.
  const ends = process as NodeJS.Process & { reallyExit: NodeJS.Process["exit"] };
  const { reallyExit, abort, kill, disconnect, emit } = ends;
  ends.reallyExit = (code) => {
    onEnd("process.exit()");
    return reallyExit.call(process, code);
  };
  ends.abort = () => {
    onEnd("process.abort()");
    return abort.call(process);
  };
  ends.kill = (pid, signal = "SIGTERM") => {
    if (pid === process.pid && FATAL.has(signal)) onEnd(`process.kill() with ${signal}`);
    return kill.call(process, pid, signal);
  };
  // A worker stops without its channel. Where there is none, the function is missing.
  if (disconnect !== undefined)
    ends.disconnect = () => {
      onEnd("process.disconnect()");
      disconnect.call(process);
    };
  // Real signals arrive here, too, in no turn.
  const emitNamed = (event: string | symbol, ...args: unknown[]): unknown => {
    if (FATAL.has(event)) onEnd(`process.emit("${String(event)}")`);
    return Reflect.apply(emit, process, [event, ...args]);
  };
  Object.assign(ends, { emit: emitNamed });
  return () => void Object.assign(process, { reallyExit, abort, kill, disconnect, emit });
}

/** Without this function, the one that calls `report`, and the replaced function. */
const stackAbove = (): string => (new Error().stack ?? "").split("\n").slice(4).join("\n");
