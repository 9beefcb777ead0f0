/**
 * `stub.method(...args)` over `call`. Names that the language, consoles, test tools and React look
 * up on any object are not methods: inspecting a stub must never call the agent.
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
 * An object whose every property is a function that passes its name and arguments to `call`, and
 * returns its result. Symbols and the names above are undefined.
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
