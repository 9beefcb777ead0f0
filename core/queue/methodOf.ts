/** Finds callbacks by name, since a queue item or a schedule outlives the code that made it. */

export type Callback = (...args: unknown[]) => unknown;

/**
 * The agent's method of that name, bound to it. Throws `missing()` if it does not exist: a name
 * that every object has (`constructor`, `toString`) is none, unless the agent's class defines it.
 */
export function methodOf(agent: object, name: string, missing: () => Error): Callback {
  const method = (agent as Record<string, unknown>)[name];
  if (typeof method !== "function" || isOfEveryObject(name, method)) throw missing();
  return (method as Callback).bind(agent);
}

const isOfEveryObject = (name: string, method: unknown): boolean =>
  name === "constructor" || (Object.prototype as Record<string, unknown>)[name] === method;
