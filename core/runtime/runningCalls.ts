/**
 * Calls whose code runs on an agent. When a parent aborts the agent, their callers get an error,
 * even if the code never ends. Fed by `handleCall`.
 */
import { AgentDiscarded } from "../errors/errors.ts";
import { LinkedList } from "../collections/LinkedList.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";

type Reject = (error: unknown) => void;

const running = new WeakMap<ActiveAgent, LinkedList<Reject>>();

/** Settles as `call` does, or rejects if `interruptCalls` is called before that. */
export function interruptible<A>(agent: ActiveAgent, call: Promise<A>): Promise<A> {
  let calls = running.get(agent);
  if (calls === undefined) running.set(agent, (calls = new LinkedList()));
  const of = calls;
  return new Promise((resolve, reject) => {
    const link = of.add(reject);
    call.then(
      (value) => {
        link.leave();
        resolve(value);
      },
      (error: unknown) => {
        link.leave();
        reject(error);
      },
    );
  });
}

/** Rejects the calls that run on a discarded agent, which may never settle. */
export function interruptCalls(agent: ActiveAgent): void {
  for (const reject of running.get(agent)?.drain() ?? []) reject(new AgentDiscarded());
}
