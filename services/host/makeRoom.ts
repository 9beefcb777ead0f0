/**
 * Room for an agent that is about to wake while its host's memory is full: others of its shard leave first. Sweeps take what
 * time is left over, so agents that wake faster than these let others go would fill any memory; here who wakes pays. Where
 * nobody may leave yet, who has only inputs waits a little: a flood of them is in mid-turn. Calls never wait, for an agent
 * that is in mid-turn may have made them.
 */
import type { AgentSlot } from "./AgentSlot.ts";
import type { HostServices } from "./HostServices.ts";
import { idleLimitMs } from "./idleLimit.ts";

/** More than comes, so that memory empties. */
const LEAVE_MAX = 2;
/** Most of them may be busy, or never hibernate: whoever wakes does not look at all. */
const ASKED_MAX = 16;
/** Between two looks: a few turns end in it. */
const PAUSE_MS = 5;
/** Then it wakes all the same: memory that nobody leaves must not keep everybody out. */
const WAIT_MS_MAX = 200;

/** Undefined: at once. */
export type MakeRoom = (waits: boolean) => Promise<void> | undefined;

/**
 * A function to call before an agent wakes: `slots` are asked in turn, the longest here first. None leaves while the shard is
 * not surely ours: it would store an image of what may be erased by now.
 */
export function roomMaker(
  { time, memoryInUse }: Pick<HostServices, "time" | "memoryInUse">,
  slots: ReadonlyMap<string, AgentSlot>,
  isOurs: () => boolean,
): MakeRoom {
  if (memoryInUse === undefined) return () => undefined;
  // Goes on with what is added meanwhile, at the map's end.
  let turn = slots.values();
  const next = (): AgentSlot | undefined => {
    const { value } = turn.next();
    if (value === undefined) turn = slots.values();
    return value;
  };
  const isFull = (): boolean => {
    let leave = LEAVE_MAX;
    let asked = 0;
    while (memoryInUse() >= 1 && isOurs()) {
      if (leave === 0 || asked++ === ASKED_MAX) return true;
      if (next()?.hibernate(time.monotonicMs(), idleLimitMs(1)) === true) leave--;
    }
    return false;
  };
  const wait = async (): Promise<void> => {
    const endMs = time.monotonicMs() + WAIT_MS_MAX;
    do {
      await new Promise<void>((resolve) => time.after(PAUSE_MS, resolve));
    } while (isFull() && time.monotonicMs() < endMs);
  };
  return (waits) => (isFull() && waits ? wait() : undefined);
}
