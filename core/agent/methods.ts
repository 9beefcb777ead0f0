/**
 * Looks up an agent's methods by name, for calls from outside. Only prototypes are searched, so
 * that a look-up runs no getter and a function in a field is never reached.
 */
import { callableMetadata, type CallableMetadata } from "./callable.ts";

export type Method = (...args: unknown[]) => unknown;

/** The nearest method of that name on the prototypes, including the base class's. */
export function methodOn(agent: object, name: string): Method | undefined {
  for (const prototype of prototypesOf(agent)) {
    const found = Object.getOwnPropertyDescriptor(prototype, name);
    if (found !== undefined)
      return typeof found.value === "function" && name !== "constructor"
        ? (found.value as Method)
        : undefined;
  }
  return undefined;
}

/** The method of an `RpcTarget` that a caller names. Throws `TypeError` where it has none. */
export function methodOfTarget(target: object, name: string): Method {
  const method = methodOn(target, name);
  if (method === undefined || name in Object.prototype)
    throw new TypeError(`Method ${name} does not exist`);
  return method;
}

/**
 * The methods marked `@callable()`, including inherited ones. Only the nearest method of a name
 * counts, whether it is marked or not.
 */
export function callableMethods(agent: object): Map<string, CallableMetadata> {
  const found = new Map<string, CallableMetadata>();
  const seen = new Set<string>();
  for (const prototype of prototypesOf(agent))
    for (const name of Object.getOwnPropertyNames(prototype)) {
      if (seen.has(name)) continue;
      seen.add(name);
      const value: unknown = Object.getOwnPropertyDescriptor(prototype, name)?.value;
      const metadata = callableMetadata(value);
      if (metadata !== undefined) found.set(name, metadata);
    }
  return found;
}

/** Nearest first. */
export function* prototypesOf(agent: object): Iterable<object> {
  for (
    let prototype: unknown = Object.getPrototypeOf(agent);
    typeof prototype === "object" && prototype !== null;
    prototype = Object.getPrototypeOf(prototype)
  )
    yield prototype;
}
