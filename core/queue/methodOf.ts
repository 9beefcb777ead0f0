/** Finds callbacks by name, since a queue item or a schedule outlives the code that made it. */

export type Callback = (...args: unknown[]) => unknown;

/** The agent's method of that name, bound to it. Throws `missing()` if it does not exist. */
export function methodOf(agent: object, name: string, missing: () => Error): Callback {
  const method = (agent as Record<string, unknown>)[name];
  if (typeof method !== "function") throw missing();
  return (method as Callback).bind(agent);
}
