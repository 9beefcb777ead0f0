/**
 * Calls that an agent has not answered. When it is discarded, their callers are answered at once:
 * the agent's code may never end, and the agent does not. Fed by `handleCall`.
 */
import { AgentDiscarded } from "../errors/errors.ts";
import { LinkedList } from "../collections/LinkedList.ts";

type Reject = (error: unknown) => void;

/** By the agent. */
const running = new WeakMap<object, LinkedList<Reject>>();

/** Settles as `call` does, or rejects if `interruptCalls` is called before that. */
export function interruptible<A>(agent: object, call: Promise<A>): Promise<A> {
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

/** Rejects the calls of a discarded agent. */
export function interruptCalls(agent: object): void {
  for (const reject of running.get(agent)?.drain() ?? []) reject(new AgentDiscarded());
}
