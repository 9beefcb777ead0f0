/**
 * Opens a resource of Effect's for code that is not: the resource lives until its `close` is
 * called. Each join that starts something uses it.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Scope from "effect/Scope";

interface Opened<A> {
  readonly opened: A;
  /** Runs the finalizers. Calling it again does nothing. */
  readonly close: () => Promise<void>;
}

/** Rejects as the effect fails, and when `signal` aborts it; what it acquired is released. */
export async function openScoped<A, E>(
  effect: Effect.Effect<A, E, Scope.Scope>,
  signal?: AbortSignal,
): Promise<Opened<A>> {
  const scope = Effect.runSync(Scope.make());
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void));
  try {
    return { opened: await Effect.runPromise(Scope.provide(effect, scope), { signal }), close };
  } catch (error) {
    await close();
    throw error;
  }
}
