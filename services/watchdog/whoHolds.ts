/**
 * Which agent holds what fills the memory of its process between its turns: a list or a cache of
 * its object. Such memory grows over many turns, and the turn that runs when it is full may be a
 * neighbour's. The watchdog's thread asks before it ends the process. The main thread estimates
 * what each agent holds (`AgentsInMemory`).
 */
import { Session } from "node:inspector";
import { WHO_HOLDS, type Holder } from "./pausedCode.ts";

/** The part of full memory with which an agent is certainly the cause: more than all others. */
const MOST = 0.5;

/** Undefined: no agent holds most of `fullMb`, or there is no answer within `ms`. */
export async function whoHolds(fullMb: number, ms: number): Promise<Holder | undefined> {
  const session = new Session();
  session.connectToMainThread();
  const holder = await new Promise<Holder | undefined>((resolve) => {
    setTimeout(() => resolve(undefined), ms);
    const expression = `globalThis["${WHO_HOLDS}"](${fullMb * MOST})`;
    session.post("Runtime.evaluate", { expression, returnByValue: true }, (error, given) =>
      resolve(error === null ? (given.result.value as Holder | undefined) : undefined),
    );
  });
  session.disconnect();
  return holder;
}
