/**
 * Calls that an agent has not answered. When it is discarded, their callers are answered at once:
 * the agent's code may never end, and the agent does not. Fed by `handleCall`.
 */
import { AgentDiscarded } from "../errors/errors.ts";
import { LinkedList } from "../collections/LinkedList.ts";

/** Each rejects a call. */
export type RunningCalls = LinkedList<(error: unknown) => void>;

interface CalledAgent {
  /** Undefined: none runs. */
  runningCalls: RunningCalls | undefined;
}

/** Settles as `call` does, or rejects if `interruptCalls` is called before that. */
export function interruptible<A>(agent: CalledAgent, call: Promise<A>): Promise<A> {
  const calls = (agent.runningCalls ??= new LinkedList());
  return new Promise((resolve, reject) => {
    const link = calls.add(reject);
    const leave = (): void => {
      if (link.leave() && calls.first === undefined) agent.runningCalls = undefined;
    };
    call.then(
      (value) => {
        leave();
        resolve(value);
      },
      (error: unknown) => {
        leave();
        reject(error);
      },
    );
  });
}

/** Rejects the calls of a discarded agent. */
export function interruptCalls(agent: CalledAgent): void {
  for (const reject of agent.runningCalls?.drain() ?? []) reject(new AgentDiscarded());
}
