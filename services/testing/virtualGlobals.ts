/**
 * Virtual globals for the code of agents under test only. In agents' turns `Date`, `setTimeout`,
 * `setInterval`, `AbortSignal.timeout`, `Math.random`, `crypto.randomUUID` and `fetch` are the
 * test's. The test itself,
 * its runner and everything else in the process keep the real ones. SQLite's clock follows, because
 * it reads `Date`.
 *
 * 1. The ambient context identifies whose code runs. Outside of a turn, each global works as usual.
 *    Errors that such code leaves unhandled are its agent's, not the runner's.
 * 2. They are installed while any harness is open; the last harness to close removes them.
 *
 * Not covered: code that bypasses the globals (`node:timers`, `performance.now`,
 * `crypto.getRandomValues`, SQLite's `random()`).
 */
import { AsyncResource } from "node:async_hooks";
import { joinSignals } from "../../core/lazyFetch/AbortSource.ts";
import { requestOfStep } from "../../core/step/requestOfStep.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { asyncAmbient } from "../node/AsyncAmbient.ts";
import { giveToAgent } from "../node/unhandledErrors.ts";

/** What a harness provides to the code of its agents. */
interface World {
  readonly time: TimeShape;
  /** Whether the agent's host has crashed; its timers then do not fire. */
  readonly isDead: (agent: ActiveAgent) => boolean;
  readonly fetch: (request: Request) => Promise<Response>;
}

const worlds = new Map<TimeShape, World>();
let restore: (() => void) | undefined;

/** Adds a harness until the returned function is called. */
export function joinWorld(world: World): () => void {
  restore ??= install();
  worlds.set(world.time, world);
  return () => {
    worlds.delete(world.time);
    if (worlds.size > 0) return;
    restore?.();
    restore = undefined;
  };
}

function current(): { readonly world: World; readonly agent: ActiveAgent } | undefined {
  const owner = asyncAmbient.current()?.owner;
  if (!(owner instanceof ActiveAgent)) return undefined;
  const world = worlds.get(owner.time);
  return world && { world, agent: owner };
}

function install(): () => void {
  const undo = [
    replace(globalThis, "Date", virtualDate),
    replace(globalThis, "setTimeout", (plain) => virtualTimer(plain, false)),
    replace(globalThis, "setInterval", (plain) => virtualTimer(plain, true)),
    replace(globalThis, "clearTimeout", virtualClear),
    replace(globalThis, "clearInterval", virtualClear),
    replace(globalThis, "fetch", virtualFetch),
    replace(AbortSignal, "timeout", virtualTimeout),
    replace(Math, "random", (plain) => () => current()?.world.time.random() ?? plain()),
    replace(crypto, "randomUUID", virtualUuid),
    replace(process, "emit", agentsErrors),
  ];
  return () => {
    for (const back of undo) back();
  };
}

/**
 * Replaces a property. The returned function restores it, unless something else (a runner's fake
 * timers) has replaced it since.
 */
function replace<T extends object, K extends keyof T>(
  on: T,
  key: K,
  make: (plain: T[K]) => T[K],
): () => void {
  const before = Object.getOwnPropertyDescriptor(on, key);
  const plain = on[key];
  const value = make(plain);
  Object.defineProperty(on, key, { value, writable: true, configurable: true, enumerable: true });
  return () => {
    if (on[key] !== value) return;
    if (before === undefined) delete on[key];
    else Object.defineProperty(on, key, before);
  };
}

const virtualDate = (plain: DateConstructor): DateConstructor => {
  const now = (): number => current()?.world.time.nowMs() ?? plain.now();
  const virtual: DateConstructor = new Proxy(plain, {
    apply: () => new plain(now()).toString(),
    construct: (target, args: unknown[], newTarget) =>
      Reflect.construct(
        target,
        args.length === 0 ? [now()] : args,
        newTarget === virtual ? target : newTarget,
      ) as Date,
    get: (target, key) => (key === "now" ? now : (Reflect.get(target, key) as unknown)),
  });
  return virtual;
};

type SetTimer = typeof setTimeout & typeof setInterval;

/** Agents' timers run in virtual time and end with their host. */
function virtualTimer<T extends typeof setTimeout | typeof setInterval>(
  plain: T,
  repeats: boolean,
): T {
  const set = (f: (...args: unknown[]) => void, ms = 0, ...args: unknown[]): unknown => {
    const here = current();
    if (here === undefined || typeof f !== "function") return (plain as SetTimer)(f, ms, ...args);
    return new VirtualTimer(here.world, here.agent, {
      run: AsyncResource.bind(() => guarded(here.agent, () => f(...args))),
      // As on the platform, a timer takes at least a millisecond, so a loop of timers moves time.
      ms: Math.max(1, Number(ms) || 0),
      repeats,
    });
  };
  // Copies the platform's properties, for `util.promisify(setTimeout)` and the like.
  return Object.assign(set, plain) as unknown as T;
}

function virtualClear<T extends typeof clearTimeout>(plain: T): T {
  const clear = (timer: Parameters<typeof clearTimeout>[0]): void => {
    if ((timer as unknown) instanceof VirtualTimer) (timer as unknown as VirtualTimer).close();
    else plain(timer);
  };
  return clear as T;
}

interface TimerParts {
  readonly run: () => void;
  readonly ms: number;
  readonly repeats: boolean;
}

/** Replaces Node's `Timeout`. */
class VirtualTimer {
  private cancel: () => void = () => undefined;

  constructor(
    private readonly world: World,
    private readonly agent: ActiveAgent,
    private readonly parts: TimerParts,
  ) {
    this.refresh();
  }

  refresh(): this {
    const { ms, repeats, run } = this.parts;
    this.cancel();
    this.cancel = this.world.time.after(ms, () => {
      if (this.world.isDead(this.agent)) return;
      if (repeats) this.refresh();
      run();
    });
    return this;
  }

  close(): this {
    this.cancel();
    return this;
  }

  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  hasRef(): boolean {
    return false;
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Waits for the output gate and is aborted, as the `fetch` of a serving process (`gatedFetch`). */
const virtualFetch = (plain: typeof fetch): typeof fetch =>
  Object.assign(async (...args: Parameters<typeof fetch>): Promise<Response> => {
    const here = current();
    if (here === undefined) return plain(...args);
    const own = new Request(...args);
    const { abort, step } = asyncAmbient.current()!;
    const signal = args[1]?.signal === null ? own.signal : joinSignals(own.signal, abort);
    await here.agent.flush();
    signal.throwIfAborted();
    const request = requestOfStep(step, new Request(own, { signal }));
    return unlessAborted(here.world.fetch(request), signal);
  }, plain);

/** Rejects with the signal's reason when it aborts before the answer. */
const unlessAborted = (answer: Promise<Response>, signal: AbortSignal): Promise<Response> =>
  new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", abort, { once: true });
    answer.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });

const virtualTimeout = (plain: typeof AbortSignal.timeout): typeof AbortSignal.timeout =>
  function (this: unknown, ms: number): AbortSignal {
    const here = current();
    if (here === undefined) return plain.call(AbortSignal, ms);
    const controller = new AbortController();
    const reason = new DOMException("The operation was aborted due to timeout", "TimeoutError");
    here.world.time.after(ms, () => controller.abort(reason));
    return controller.signal;
  };

/** A version 4 UUID from the seed. */
const virtualUuid = (plain: Crypto["randomUUID"]): Crypto["randomUUID"] =>
  function (this: Crypto) {
    const time = current()?.world.time;
    if (time === undefined) return plain.call(crypto);
    const digits = (count: number): string =>
      Array.from({ length: count }, () => Math.floor(time.random() * 16).toString(16)).join("");
    const variant = "89ab"[Math.floor(time.random() * 4)]!;
    return `${digits(8)}-${digits(4)}-4${digits(3)}-${variant}${digits(3)}-${digits(12)}`;
  };

/** What a timer's code throws would otherwise end the loop that moves time. */
function guarded(agent: ActiveAgent, f: () => void): void {
  try {
    f();
  } catch (error) {
    giveToAgent(agent, error);
  }
}

/**
 * Errors that agents' code leaves unhandled are the agents', as in a serving process. The runner's
 * listeners, which would fail the test, receive the others.
 */
function agentsErrors(plain: typeof process.emit): typeof process.emit {
  const emit = plain as (this: unknown, event: string, ...args: unknown[]) => boolean;
  return function (this: unknown, event: string, ...args: unknown[]): boolean {
    const isError = event === "unhandledRejection" || event === "uncaughtException";
    const here = isError ? current() : undefined;
    if (here === undefined) return emit.call(this, event, ...args);
    giveToAgent(here.agent, args[0]);
    return true;
  } as typeof process.emit;
}
