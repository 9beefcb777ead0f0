/**
 * How an error of an agent's code reaches its `onError`, and code that follows a commit, whose
 * errors go there too. Part of `ActiveAgent`.
 */
import type { Connection } from "../connection/Connection.ts";
import type { Turn } from "../turn/Turn.ts";

/** The agent whose code it is. */
export interface CodeOwner {
  readonly agent: {
    onError(error: unknown): void | Promise<void>;
    onError(connection: Connection, error: unknown): void | Promise<void>;
  };
  readonly discarded: boolean;
  /** Turns and code that run. */
  busy: number;
  inTurn<A>(turn: Turn, f: () => A): A;
}

/**
 * Calls `onError` in the turn that failed: what it writes is part of that turn. True when it
 * returned: the error is suppressed. `of`: the connection that itself failed.
 */
export async function routeError(
  active: CodeOwner,
  turn: Turn,
  error: unknown,
  of?: Connection,
): Promise<boolean> {
  const { agent } = active;
  active.busy++;
  try {
    await active.inTurn(turn, () =>
      of === undefined ? agent.onError(error) : agent.onError(of, error),
    );
    return true;
  } catch {
    // The default `onError` logs and throws the error on: it stays what it is, a failure.
    return false;
  } finally {
    active.busy--;
  }
}

/** Runs user code that follows a commit (`onStateChanged`) in its turn's context. */
export function runDeferred(active: CodeOwner, turn: Turn, f: () => unknown): void {
  if (active.discarded) return;
  active.busy++;
  const end = (): void => void active.busy--;
  const run = async (): Promise<unknown> => active.inTurn(turn, f);
  Promise.resolve()
    .then(run)
    .then(end, (error: unknown) => routeError(active, turn, error).finally(end));
}
