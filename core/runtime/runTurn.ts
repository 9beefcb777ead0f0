/**
 * Runs an agent's code: as a turn, in a block, after a turn's commit, and for a turn's error. Each
 * may take as long as a turn (`core/turn/TurnLimits`), and keeps the agent in memory meanwhile.
 * Part of `ActiveAgent`, whose methods of the same names call these.
 */
import type { Agent } from "../agent/Agent.ts";
import type { Connection } from "../connection/Connection.ts";
import { readable, stackOf } from "../errors/thrown.ts";
import type { Meter } from "../telemetry/Usage.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";
import type { LimitedAgent, TurnLimits } from "../turn/TurnLimits.ts";
import type { Keeping } from "./Keeping.ts";
import { throwUnhandled, type FailingAgent } from "./unhandledError.ts";

/** The agent whose code runs. */
interface RunningAgent extends FailingAgent, Pick<AgentTurns, "time"> {
  readonly agent: Agent<unknown>;
  readonly keeping: Pick<Keeping, "ended">;
  readonly parts: LimitedAgent & { readonly turnLimits: TurnLimits; readonly meter: Meter };
  busy: number;
  lastActiveMs: number;
}

/**
 * Settles as `f` does, when the turn has ended. Rejects with `TurnTimedOut` past its limit. Not
 * `async`, which saves promises for each turn.
 */
export function runTurn<A>(agent: RunningAgent, turn: Turn, f: () => A | Promise<A>): Promise<A> {
  const { parts } = agent;
  agent.busy++;
  const sinceMs = (agent.lastActiveMs = agent.time.monotonicMs());
  turn.running = true;
  return new Promise((resolve, reject) => {
    const onError = (thrown: unknown): void => {
      const error = readInTurn(agent, turn, thrown);
      ended(agent, turn, sinceMs);
      reject(error as Error);
    };
    const onValue = (value: A): void => {
      if (turn.rejected || turn.failure !== undefined)
        return void throwUnhandled(agent, turn).then(() => onValue(value), onError);
      ended(agent, turn, sinceMs);
      resolve(value);
    };
    try {
      const result = parts.ambient.run(turn, f);
      if (!(result instanceof Promise)) return onValue(result);
      parts.turnLimits.watch(parts, turn, result, { sinceMs, onValue, onError });
    } catch (error) {
      onError(error);
    }
  });
}

/**
 * As `readable`. Reads the text, too: a getter or a `toString` that holds the thread is code of the
 * turn, and the watchdog has to find it there.
 */
function readInTurn({ parts }: RunningAgent, turn: Turn, thrown: unknown): unknown {
  return parts.ambient.run(turn, () => {
    void stackOf(thrown);
    return readable(thrown);
  });
}

function ended(agent: RunningAgent, turn: Turn, sinceMs: number): void {
  turn.running = false;
  agent.busy--;
  agent.lastActiveMs = agent.time.monotonicMs();
  agent.parts.meter.turn(agent.lastActiveMs - sinceMs);
  // The mailbox ends a durable turn, after it has set its outcome.
  if (!turn.durable) agent.keeping.ended(turn);
}

/**
 * Runs code of `blockConcurrencyWhile`, never before the call has returned. The code has the time
 * limit of a turn, counted from its own start.
 */
export async function runBlock<A>(
  agent: RunningAgent & Pick<AgentTurns, "turn">,
  f: () => Promise<A>,
): Promise<A> {
  const { parts, time } = agent;
  const result = Promise.resolve().then(f);
  return parts.turnLimits.wait(parts, agent.turn(), result, time.monotonicMs());
}

/** Runs code of a turn, for as long as a turn may take. */
function limited<A>(
  { parts, time }: RunningAgent,
  turn: Turn,
  f: () => A | Promise<A>,
): A | Promise<A> {
  const result = parts.ambient.run(turn, f);
  if (!(result instanceof Promise)) return result;
  return parts.turnLimits.wait(parts, turn, result, time.monotonicMs());
}

/**
 * Routes an error of user code to `onError`, in the turn that failed, which includes its writes.
 * Returns true if `onError` returned: the error is suppressed. `of`: the connection that itself
 * failed.
 */
export async function routeError(
  agent: RunningAgent,
  turn: Turn,
  error: unknown,
  of: Connection | undefined,
): Promise<boolean> {
  agent.busy++;
  try {
    await limited(agent, turn.rest, () =>
      of === undefined ? agent.agent.onError(error) : agent.agent.onError(of, error),
    );
    return true;
  } catch {
    // The default `onError` logs the error and rethrows it: the failure stands.
    return false;
  } finally {
    agent.busy--;
  }
}

/** Runs code that follows a commit (`onStateChanged`) in its turn. Its errors go to `onError`. */
export function runAfterCommit(agent: RunningAgent, turn: Turn, f: () => unknown): void {
  if (agent.discarded) return;
  agent.busy++;
  const end = (): void => void agent.busy--;
  Promise.resolve()
    .then(() => limited(agent, turn.rest, f))
    .then(end, (e: unknown) => agent.handleError(turn, readInTurn(agent, turn, e)).finally(end));
}
