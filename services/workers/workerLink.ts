/**
 * A worker's end of the channel to its parent: reports where the worker serves, and receives the
 * request to stop.
 */
import type { Serving } from "./WorkerProcess.ts";

export interface WorkerLink {
  readonly serves: (serving: Serving) => void;
  /** Resolves when the parent requests a stop, or has ended in any way. */
  readonly closed: Promise<string>;
}

/** Returns undefined where this process was not started as a worker. */
export function workerLink(): WorkerLink | undefined {
  if (process.send === undefined) return undefined;
  const closed = new Promise<string>((resolve) => {
    const parted = (): void => resolve("the parent's wish");
    if (process.connected) process.once("disconnect", parted);
    else parted();
  });
  // The channel does not keep the process alive: a worker that can't start ends.
  process.channel?.unref();
  return {
    serves: (serving) => {
      // A parent that has ended meanwhile is reported by `closed` only.
      process.send?.({ serves: serving }, undefined, {}, () => undefined);
    },
    closed,
  };
}
