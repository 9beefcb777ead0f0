/**
 * The lane of an agent's durable calls: beside the queue's, and its items run side by side.
 *
 * 1. A call is stored before its method runs, and runs as a durable turn: it has steps, and when
 *    its host ends it runs again from its start.
 * 2. A key is one call. The same again waits for the one that runs, or has what it ended with. With
 *    another method or other arguments it is refused.
 * 3. What the method returns is the result of the call, and what it throws is its error: a call
 *    that has failed is undone (`undoSteps`) and not tried again.
 * 4. Whoever waits receives what is stored, once it is stored.
 *
 * `handleRpc` brings calls; `CallResults` keeps their ends.
 */
import { callableMetadata } from "../agent/callable.ts";
import { methodOn, type Method } from "../agent/methods.ts";
import { AgentDestroyed, AgentDiscarded } from "../errors/errors.ts";
import { errorOfFailure, failureText } from "../errors/failureText.ts";
import { toJson } from "../journal/jsonText.ts";
import { CALL_KEYS } from "../journal/laneKeys.ts";
import { QueueLane, type JobEnd, type JobPorts, type QueueAgent } from "../queue/QueueLane.ts";
import { conceal, hideInMessage } from "../redaction/FieldRedaction.ts";
import { hashOf } from "../step/stepKey.ts";
import { resultText } from "../step/stepResult.ts";
import { CallResults, type CallEnd, type EndedCall } from "./CallResults.ts";
import { CallKeyTaken, checkCallKey, notDurable, type DurableCall } from "../call/durableCall.ts";

/** Calls of one agent that run at once, waiting for models and providers. Further calls wait. */
const WIDTH = 64;

/** The callers that wait for one call. */
interface Waiting {
  readonly call: string;
  /** The first asker's: a chain of calls is as deep as it would be without keys. */
  readonly depth: number;
  readonly waiters: Waiter[];
}
interface Waiter {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Calls of durable methods that have not ended. */
export const CALLS_TABLE = "svc_agents_calls";

export class CallLane extends QueueLane {
  readonly #agent: QueueAgent;
  readonly #results: CallResults;
  /** By key: calls that are not known to be stored as ended. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(agent: QueueAgent, ports: JobPorts) {
    super(agent, ports, {
      table: CALLS_TABLE,
      keys: CALL_KEYS,
      payload: "a call: the arguments",
      events: undefined,
      callback: (of, name) => {
        const method = durableMethod(of.agent, name);
        return async (args) =>
          resultText(`the result of ${name}`, await method.apply(of.agent, args as unknown[]));
      },
      mayRetry: () => false,
      shown: (of, args) => hideInMessage(args, of.options.redact),
      ceiling: "waitingMax",
      width: WIDTH,
      answers: {
        end: ({ id, callback, payload }, end) => {
          const { hidden } = hideInMessage(payload ?? "", agent.options.redact);
          this.#results.add(id, callOf(callback, payload), endOf(end, hidden), agent.time.nowMs());
        },
        stored: ({ id }) => this.#answer(id),
        depth: ({ id }) => this.#waiting.get(id)?.depth ?? 0,
      },
    });
    this.#agent = agent;
    this.#results = new CallResults(agent.database);
  }

  /**
   * Resolves to what the method returned. Rejects as it did, with `CallKeyTaken`, and as `push`.
   * Called in a turn, which stores a new call and must not wait for the promise.
   */
  async ask({ key, method, args, depth = 0 }: DurableCall): Promise<unknown> {
    checkCallKey(key);
    const call = callOf(method, toJson(args, argsOf(method)));
    let waiting = this.#waiting.get(key);
    if (waiting === undefined) {
      const ended = this.#results.get(key);
      if (ended !== undefined && ended.call !== call) throw new CallKeyTaken({ key, method });
      if (ended !== undefined) {
        // What it tells of is stored by then.
        await this.#agent.committer.stored();
        return resultOf(key, ended);
      }
      const item = this.get(key);
      if (item === undefined) this.push(method, args, { id: key });
      const of =
        item === undefined ? call : callOf(item.callback, toJson(item.payload, argsOf(method)));
      this.#waiting.set(key, (waiting = { call: of, depth, waiters: [] }));
    }
    if (waiting.call !== call) throw new CallKeyTaken({ key, method });
    const { waiters } = waiting;
    return new Promise((resolve, reject) => waiters.push({ resolve, reject }));
  }

  /** The agent is gone for good, and its calls with it. */
  override destroy(): void {
    super.destroy();
    this.#reject(new AgentDestroyed());
  }

  /** The agent leaves memory: its next owner runs the calls, and answers whoever asks again. */
  leave(): void {
    this.#reject(new AgentDiscarded());
  }

  #reject(error: Error): void {
    for (const { waiters } of this.#waiting.values())
      for (const { reject } of waiters) reject(error);
    this.#waiting.clear();
  }

  /** Rule 4. */
  #answer(key: string): void {
    const { waiters } = this.#waiting.get(key) ?? { waiters: [] };
    this.#waiting.delete(key);
    const ended = this.#results.get(key);
    for (const { resolve, reject } of waiters)
      try {
        if (ended === undefined) throw notRun(key);
        resolve(resultOf(key, ended));
      } catch (error) {
        reject(error);
      }
  }
}

/** Throws for a name that is not a durable method's. */
function durableMethod(agent: object, name: string): Method {
  const method = methodOn(agent, name);
  if (method === undefined) throw new Error(`Method ${name} does not exist`);
  if (callableMetadata(method)?.durable !== true) throw notDurable(name);
  return method;
}

const argsOf = (method: string): string => `${method}: the arguments`;

/** What all calls with one key must have in common. */
const callOf = (method: string, args: string | null): string => `${method} ${hashOf(args ?? "")}`;

const endOf = (end: JobEnd, hidden: ReadonlyArray<string>): CallEnd =>
  "error" in end
    ? { error: conceal(failureText(end.error), hidden), result: null }
    : { error: null, result: (end.value as string | undefined) ?? null };

const notRun = (key: string): Error =>
  new Error(`the call "${key}" was removed from the agent's queue before it ran: call again`);

function resultOf(key: string, { error, result, kept }: EndedCall): unknown {
  if (error !== null) throw errorOfFailure(error);
  if (!kept)
    throw new Error(
      `the call "${key}" is done, but its result is no longer kept: read what it stored in the agent`,
    );
  return result === null ? undefined : JSON.parse(result);
}
