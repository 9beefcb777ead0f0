/**
 * Waits for the first request to stop a process. The first Ctrl-C or SIGTERM requests an orderly
 * stop; a second Ctrl-C ends the process at once.
 */
import type { TimeShape } from "../../../core/time/Time.ts";
import { CliError, exitOnSignal } from "./CliError.ts";

/**
 * Two signals within this time count as one key press, because npm passes the terminal's Ctrl-C on
 * to a child that has already received it.
 */
const ONE_PRESS_MS = 500;

/** The message of `agents dev` when it is stopped before it serves. */
export const STOPPED_BEFORE_SERVING = "Stopped before serving.";

/** Runs a command that can't stop in order. Rejects with `CliError` at the first signal. */
export async function endedBySignal<A>(
  time: Pick<TimeShape, "monotonicMs">,
  message: string,
  run: () => Promise<A>,
): Promise<A> {
  const { stopped, release } = stopSignals(time);
  const ended = stopped.then((signal): never => {
    throw new CliError({ message, exitCode: exitOnSignal(signal) });
  });
  try {
    return await Promise.race([ended, run()]);
  } finally {
    release();
  }
}

interface StopSignals {
  /** Resolves at the first signal. */
  readonly stopped: Promise<NodeJS.Signals>;
  /** Removes the signal listeners. */
  readonly release: () => void;
}

export function stopSignals(
  time: Pick<TimeShape, "monotonicMs">,
  force: () => void = () => process.exit(exitOnSignal("SIGINT")),
): StopSignals {
  let firstMs: number | undefined;
  let resolve: (signal: NodeJS.Signals) => void;
  const stopped = new Promise<NodeJS.Signals>((done) => (resolve = done));
  const onSignal = (signal: NodeJS.Signals): void => {
    if (firstMs === undefined) {
      firstMs = time.monotonicMs();
      resolve(signal);
    } else if (signal === "SIGINT" && time.monotonicMs() - firstMs > ONE_PRESS_MS) force();
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, onSignal);
  return {
    stopped,
    release: () => {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}
