/**
 * Fills `env` and `exports` of `cloudflare:workers`. A process runs one module: `loadModule` puts
 * the variables in before it imports the module, so that its top level can read them, and
 * `joinProcess` binds the classes afterwards, again after each reload.
 */
import { loopback } from "./loopback.ts";
import type { EntrypointClass } from "./WorkerEntrypoint.ts";

type Bindings = Readonly<Record<string, unknown>>;

/** The bindings and variables, as handlers and agents receive them. */
export const env: Record<string, unknown> = {};
/** What the module exports, for its own code: agents' namespaces, and entrypoints. */
export const exports: Record<string, unknown> = {};

let report: (error: unknown) => void = () => undefined;

/** For a promise that nobody waits for. */
export const reportRejection = (error: unknown): void => report(error);

/** What there is before the module is imported. */
export const seedPlatform = (variables: Bindings): void => replace(env, variables);

/**
 * For the code that is loaded next, while other code runs: replaces the variables `before`, and
 * keeps what else is bound.
 */
export function reseedPlatform(variables: Bindings, before: Bindings): void {
  for (const name of Object.keys(before)) Reflect.deleteProperty(env, name);
  Object.assign(env, variables);
}

/** `onRejected` receives the error of each rejected promise that no code awaits. */
export function bindPlatform(
  module: {
    readonly agents: ReadonlyMap<string, unknown>;
    readonly entrypoints: ReadonlyMap<string, EntrypointClass>;
  },
  bound: Bindings,
  onRejected: (error: unknown) => void,
): void {
  report = onRejected;
  replace(env, bound);
  const agents = [...module.agents.keys()].map((name) => [name, bound[name]] as const);
  const named = [...module.entrypoints].map(
    ([name, entrypoint]) => [name, loopback(entrypoint, env, reportRejection)] as const,
  );
  replace(exports, Object.fromEntries([...agents, ...named]));
}

/** The same object with other properties, since importers hold the object. */
function replace(target: Record<string, unknown>, next: Readonly<Record<string, unknown>>): void {
  for (const key of Reflect.ownKeys(target)) Reflect.deleteProperty(target, key);
  for (const key of Reflect.ownKeys(next) as string[])
    Object.defineProperty(target, key, {
      value: next[key],
      enumerable: Object.prototype.propertyIsEnumerable.call(next, key),
      configurable: true,
      writable: true,
    });
}
