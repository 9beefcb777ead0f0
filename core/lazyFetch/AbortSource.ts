/**
 * An abort that costs nothing until someone asks for its signal: an AbortController is an
 * EventTarget with its maps, several times the price of the rest of a small request, and most
 * handlers never look. Exchanges own one each, and so do turns. Whoever asks after the abort gets a
 * signal that has already fired. Runtime code listens by `onFire`, which makes no signal either.
 */

/** For those who only listen. */
export interface Abortable {
  readonly fired: boolean;
  /** Undefined before it has fired. */
  readonly reason: unknown;
  /** Calls `f` once when it fires, or at once if it has. The returned function ends that. */
  readonly onFire: (f: () => void) => () => void;
}

export interface Abort extends Abortable {
  /** Aborts with `reason`. The same one each time. */
  readonly signal: AbortSignal;
}

const NOTHING = (): void => undefined;

export class AbortSource implements Abort {
  #fired = false;
  #reason: unknown;
  #controller: AbortController | undefined;
  #listeners: Set<() => void> | undefined;

  get fired(): boolean {
    return this.#fired;
  }

  get reason(): unknown {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#fired) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  onFire(f: () => void): () => void {
    if (this.#fired) {
      f();
      return NOTHING;
    }
    const listeners = (this.#listeners ??= new Set());
    listeners.add(f);
    return () => void listeners.delete(f);
  }

  /** `reason`: what the signal aborts with. Default: the platform's `AbortError`. */
  fire(reason?: unknown): void {
    if (this.#fired) return;
    this.#fired = true;
    this.#reason = reason ?? new DOMException("This operation was aborted", "AbortError");
    this.#controller?.abort(this.#reason);
    const listeners = this.#listeners;
    this.#listeners = undefined;
    for (const f of listeners ?? []) f();
  }
}

/** The abort of a platform's signal. */
export const abortOfSignal = (signal: AbortSignal): Abort => ({
  signal,
  get fired() {
    return signal.aborted;
  },
  get reason() {
    return signal.reason as unknown;
  },
  onFire: (f) => {
    if (signal.aborted) {
      f();
      return NOTHING;
    }
    signal.addEventListener("abort", f, { once: true });
    return () => signal.removeEventListener("abort", f);
  },
});

/** Fires with the first of the two. */
export const firstOf = (one: Abortable, other: Abortable): Abortable => ({
  get fired() {
    return one.fired || other.fired;
  },
  get reason() {
    return one.fired ? one.reason : other.reason;
  },
  onFire: (f) => {
    if (one.fired || other.fired) {
      f();
      return NOTHING;
    }
    const ends = [one, other].map((each) =>
      each.onFire(() => {
        for (const end of ends) end();
        f();
      }),
    );
    return () => {
      for (const end of ends) end();
    };
  },
});

/** Aborts with the first of the two; `own`: what a caller gave, if anything. */
export const joinSignals = (own: AbortSignal | undefined, { signal }: Abort): AbortSignal =>
  own === undefined ? signal : AbortSignal.any([own, signal]);
