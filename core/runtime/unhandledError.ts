/**
 * Errors of an agent's code that nothing handles: a rejected promise that nobody awaits, a throw in
 * a timer or in an event handler. The process attributes them by the turn of the running code
 * (`services/node/unhandledErrors`), and reports them here.
 *
 * 1. The error is logged once, with the turn that it came from.
 * 2. While the turn runs, the error is the turn's failure: the turn ends as if its handler had
 *    thrown it, so it is retried or dead-lettered, and `onError` receives it.
 * 3. After the turn, `onError` receives it in a new turn.
 */
import { AgentDiscarded, AgentDestroyed, TurnTimedOut } from "../errors/errors.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { turnFields } from "../turn/turnFields.ts";
import type { Turn } from "../turn/Turn.ts";
import { readable, stackOf } from "../errors/thrown.ts";
import { sleep } from "../time/sleep.ts";

export type FailingAgent = Pick<
  AgentTurns,
  "id" | "discarded" | "handleError" | "log" | "newTurn" | "run"
>;

/** `quiet`: the error is not logged, because many were logged lately. */
export function unhandledError(
  agent: FailingAgent,
  turn: Turn,
  thrown: unknown,
  { quiet = false } = {},
): void {
  const error = readable(thrown);
  // The code continued after its agent had left this process. The next owner runs the turn again.
  if (error instanceof AgentDiscarded || error instanceof AgentDestroyed) return;
  // The code continued after its turn was given up, which was logged.
  if (error instanceof TurnTimedOut) return;
  if (!quiet) {
    agent.log.error("an error was not handled", {
      ...turnFields(turn),
      failsItsTurn: turn.running,
      error: turn.conceal(stackOf(error)),
    });
  }
  if (agent.discarded) return;
  if (turn.running) {
    turn.failure ??= { error };
    return;
  }
  const own = agent.newTurn({ kind: "background" });
  // The error is logged already, and `onError` may throw it on.
  agent.run(own, () => agent.handleError(own, error)).catch(() => undefined);
}

/** Called when the turn's code has settled. Rejects with the turn's failure, if there is one. */
export async function throwUnhandled(
  { time }: Pick<AgentTurns, "time">,
  turn: Turn,
): Promise<void> {
  if (turn.rejected) await sleep(time, 0);
  turn.rejected = false;
  const { failure } = turn;
  turn.failure = undefined;
  if (failure !== undefined) throw failure.error;
}
