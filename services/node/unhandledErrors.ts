/**
 * Keeps a process alive when code of its module leaves an error unhandled, and finds the agent
 * whose code it was by the turn that was running. The turn's `AsyncLocalStorage` is that of the
 * code that rejected or threw, on each version of Node that we support. `unhandledError` then does
 * what the agent is owed.
 *
 * 1. An error that belongs to no turn is logged and counted, and ends nothing.
 * 2. What runs here may be broken by an agent's code (`services/watchdog/RuntimeChecks`), which the
 *    watchdog finds out. An error of the handler itself therefore ends nothing, either: Node would
 *    end the process before it is known whose code it was.
 * 3. At most `LINES_MAX` such errors are logged in `WINDOW_MS`; the number of others is logged when
 *    the window ends. All are counted.
 */
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { unhandledError } from "../../core/runtime/unhandledError.ts";
import { asyncAmbient, callingAgent } from "./AsyncAmbient.ts";
import { stackOf } from "../../core/errors/thrown.ts";
import { writeStderr } from "./writeStderr.ts";

/** Rule 3: a loop that rejects may do so 100,000 times a second. */
const WINDOW_MS = 10_000;
const LINES_MAX = 50;

interface UnhandledErrorsOptions {
  readonly log: Pick<LogShape, "error">;
  readonly time: Pick<TimeShape, "after">;
  /** Called for each error. `of`: the class of the agent, or undefined where there is none. */
  readonly onError: (of: string | undefined) => void;
}

/** Installs the handlers of this process. Call the returned function to remove them. */
export function handleUnhandledErrors({ log, time, onError }: UnhandledErrorsOptions): () => void {
  let lines = 0;
  let cancel: (() => void) | undefined;
  const windowEnds = (): void => {
    if (lines > LINES_MAX)
      log.error("further unhandled errors are not logged", { errors: lines - LINES_MAX });
    lines = 0;
    cancel = undefined;
  };
  const handleError = (error: unknown): void => {
    const agent = callingAgent();
    onError(agent?.id.class);
    lines++;
    cancel ??= time.after(WINDOW_MS, windowEnds);
    const quiet = lines > LINES_MAX;
    if (agent !== undefined) giveToAgent(agent, error, { quiet });
    else if (!quiet)
      log.error("an error outside of any turn was not handled", { error: stackOf(error) });
  };
  const handle = (error: unknown): void => {
    try {
      handleError(error);
    } catch {
      writeStderr("an error was not handled, and could not be logged\n"); // rule 2
    }
  };
  process.on("unhandledRejection", handle);
  process.on("uncaughtException", handle);
  return () => {
    process.off("unhandledRejection", handle);
    process.off("uncaughtException", handle);
    cancel?.();
  };
}

/** Hands an error that nothing handled to the agent whose code is running. */
export function giveToAgent(agent: ActiveAgent, error: unknown, how = { quiet: false }): void {
  const seen = asyncAmbient.current()!;
  unhandledError(agent, seen.step?.turn ?? seen, error, how);
}
