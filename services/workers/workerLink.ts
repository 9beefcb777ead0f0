/** A worker's end of the channel to its parent: says where it serves, and hears when it should stop. */
import type { Serving } from "./WorkerProcess.ts";

export interface WorkerLink {
  readonly serves: (serving: Serving) => void;
  /** Resolves when the parent wants it to stop, or is gone, however it went. */
  readonly closed: Promise<string>;
}

/** Undefined: nobody started this process as a worker. */
export function workerLink(): WorkerLink | undefined {
  if (process.send === undefined) return undefined;
  const closed = new Promise<string>((resolve) => {
    const parted = (): void => resolve("the parent's wish");
    if (process.connected) process.once("disconnect", parted);
    else parted();
  });
  // A worker that can't start ends, though its parent still listens.
  process.channel?.unref();
  return {
    serves: (serving) => {
      // A parent that is gone meanwhile is `closed`, nothing else.
      process.send?.({ serves: serving }, undefined, {}, () => undefined);
    },
    closed,
  };
}
