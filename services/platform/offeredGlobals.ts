/**
 * Gives a process the globals of the reference's platform that handlers call and Node lacks:
 * `crypto.subtle.timingSafeEqual`, by which its documentation compares signatures, and
 * `scheduler.wait`. Called by `bindEnv`, before any handler runs.
 */
import { timingSafeEqual } from "node:crypto";

/** A global of one of the names that is there already stays. */
export function offerGlobals(): void {
  offer(globalThis.SubtleCrypto.prototype, "timingSafeEqual", timingSafeEqual);
  offer(globalThis, "scheduler", { wait });
}

function offer(target: object, name: string, value: unknown): void {
  if (!(name in target))
    Object.defineProperty(target, name, { value, writable: true, configurable: true });
}

/** Resolves after `ms`; rejects with the signal's reason once it fires. */
const wait = (ms: number, { signal }: { readonly signal?: AbortSignal } = {}): Promise<void> =>
  new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      // The signal may be one of the whole process.
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal?.addEventListener("abort", aborted);
  });
