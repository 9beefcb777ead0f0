/** Callbacks are named: a queue item or a schedule outlives the code that made it. */
import type { Agent } from "../agent/Agent.ts";

export type Callback = (...args: unknown[]) => unknown;

/** The agent's method of that name, bound to it. Throws `missing()` where there is none. */
export function methodOf(agent: Agent<unknown>, name: string, missing: () => Error): Callback {
  const method = (agent as unknown as Record<string, unknown>)[name];
  if (typeof method !== "function") throw missing();
  return (method as Callback).bind(agent);
}
