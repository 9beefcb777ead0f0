/**
 * Provides `stub.method(...args)` on top of `call`. Names that the language, consoles, test tools
 * and React look up on any object are not methods, so that inspecting a stub never calls the agent.
 */
const PROBED: ReadonlySet<PropertyKey> = new Set([
  "toJSON",
  "then",
  "catch",
  "finally",
  "valueOf",
  "toString",
  "constructor",
  "prototype",
  "$$typeof",
  "@@toStringTag",
  "asymmetricMatch",
  "nodeType",
]);

/**
 * Returns an object whose properties are all functions that pass their name and arguments to `call`
 * and return its result. Symbols and the names above are undefined.
 */
export function createStubProxy<Stub = Record<string, (...args: unknown[]) => unknown>>(
  call: (method: string, args: unknown[]) => unknown,
): Stub {
  const get = (_target: object, name: string | symbol) =>
    typeof name === "symbol" || PROBED.has(name)
      ? undefined
      : (...args: unknown[]) => call(name, args);
  return new Proxy({}, { get }) as Stub;
}
