/**
 * A `WorkerEntrypoint` as the module's own code reaches it by `exports`: `exports.Name.method(…)`,
 * or `exports.Name({ props }).method(…)` with props. Calls stay in the process, and always return
 * promises.
 */
import type { EntrypointClass, EntrypointContext } from "./WorkerEntrypoint.ts";

export function loopback(
  entrypoint: EntrypointClass,
  env: object,
  onRejected: (error: unknown) => void,
): unknown {
  const bound = (props: unknown): object =>
    methodsOf(() => new entrypoint(entrypointContext(props, onRejected), env));
  const plain = bound({});
  const withProps = (options: { readonly props?: unknown } = {}): object => bound(options.props);
  return new Proxy(withProps, { get: (_target, key) => Reflect.get(plain, key) as unknown });
}

/** The context of one instance. */
export const entrypointContext = (
  props: unknown,
  onRejected: (error: unknown) => void,
): EntrypointContext => ({
  props: props ?? {},
  waitUntil: (promise) => void Promise.resolve(promise).catch(onRejected),
  passThroughOnException: () => undefined,
});

/** Each call has an instance of its own. */
const methodsOf = (make: () => object): object =>
  new Proxy(
    {},
    {
      get: (_target, key) => {
        // A stub that has a `then` would be awaited as a promise.
        if (typeof key === "symbol" || key === "then") return undefined;
        return async (...args: unknown[]) => {
          const instance = make() as Record<string, unknown>;
          const method = instance[key];
          if (typeof method !== "function")
            throw new TypeError(`${instance.constructor.name} has no method ${key}`);
          return (method as (...given: unknown[]) => unknown).apply(instance, args);
        };
      },
    },
  );
