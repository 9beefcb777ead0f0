/**
 * Calls whose code runs on an agent: who waits for one hears when a parent aborts the agent, though the code that it asked for
 * may never end. Fed by `handleCall`.
 */
import { AgentDiscarded } from "../agent/errors.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";

const running = new WeakMap<ActiveAgent, Set<(error: unknown) => void>>();

/** Settles as `call` does, or rejects when `interruptCalls` is called before. */
export function interruptible<A>(agent: ActiveAgent, call: Promise<A>): Promise<A> {
  let calls = running.get(agent);
  if (calls === undefined) running.set(agent, (calls = new Set()));
  const of = calls;
  return new Promise((resolve, reject) => {
    of.add(reject);
    const over = (): void => void of.delete(reject);
    call.finally(over).then(resolve, reject);
  });
}

/** After the agent was discarded: what they wait for comes from nobody. */
export function interruptCalls(agent: ActiveAgent): void {
  for (const reject of running.get(agent) ?? []) reject(new AgentDiscarded());
}
