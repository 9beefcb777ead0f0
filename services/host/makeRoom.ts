/**
 * Back-pressure on waking agents while the host's memory is full: other agents of the shard
 * hibernate first. Sweeps run in the time that is left over, so agents that wake faster than sweeps
 * hibernate others would fill any memory. Here the waking agent does the work.
 *
 * When no other agent may hibernate yet, an agent that wakes for stored inputs waits a little,
 * since a flood of them is in mid-turn. Calls never wait: an agent in mid-turn may have made them.
 */
import type { HostServices } from "./HostServices.ts";
import { idleLimitMs } from "./load/idleLimit.ts";
import { sleep } from "../../core/time/sleep.ts";

/** More than the one that wakes, so that memory empties. */
const HIBERNATIONS_MAX = 2;
/** Most agents may be busy or never hibernate; a waking agent does not try all of them. */
const TRIED_MAX = 16;
/** Between two attempts: a few turns end in this time. */
const PAUSE_MS = 5;
/** After this the agent wakes anyway: memory that does not empty must not keep every agent out. */
const WAIT_MS_MAX = 200;

/** An agent's slot, as far as it can free memory. */
interface Hibernating {
  /** As `AgentSlot.hibernate`: true when the agent left memory. */
  hibernate(nowMs: number, idleLimitMs: number): boolean;
}

/**
 * Called before an agent wakes. `waits`: it may wait for room. Undefined when it may wake at once;
 * otherwise the promise resolves when it may.
 */
export type MakeRoom = (waits: boolean) => Promise<void> | undefined;

/**
 * Makes the function for one shard. `slots` are tried in turn, the oldest first. While `isOurs` is
 * false no agent hibernates: it would store an image of an agent that may have been erased.
 */
export function roomMaker(
  { time, memoryInUse }: Pick<HostServices, "time" | "memoryInUse">,
  slots: ReadonlyMap<string, Hibernating>,
  isOurs: () => boolean,
): MakeRoom {
  if (memoryInUse === undefined) return () => undefined;
  // Kept only while memory is full: an iterator that is not used holds all slots that have left.
  let turn: Iterator<Hibernating, undefined> | undefined;
  const next = (): Hibernating | undefined => {
    // Slots that are added meanwhile come last.
    turn ??= slots.values();
    const { value } = turn.next();
    if (value === undefined) turn = undefined;
    return value;
  };
  const isFull = (): boolean => {
    let hibernated = 0;
    let tried = 0;
    while (memoryInUse() >= 1 && isOurs()) {
      if (hibernated === HIBERNATIONS_MAX || tried++ === TRIED_MAX) return true;
      if (next()?.hibernate(time.monotonicMs(), idleLimitMs(1)) === true) hibernated++;
    }
    turn = undefined;
    return false;
  };
  const wait = async (): Promise<void> => {
    const endMs = time.monotonicMs() + WAIT_MS_MAX;
    do {
      await sleep(time, PAUSE_MS);
    } while (isFull() && time.monotonicMs() < endMs);
  };
  return (waits) => (isFull() && waits ? wait() : undefined);
}
