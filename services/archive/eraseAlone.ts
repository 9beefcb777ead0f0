/**
 * Lets one process of an installation erase from its archive at a time, by a lease at the broker:
 * `alone` of a `SegmentArchive`. The lease is renewed meanwhile, because a slow bucket takes longer
 * for one request than a lease lasts.
 *
 * A process that was frozen for longer than its lease lasts notices this before it writes
 * (`still`). It does not notice a freeze between this check and the write itself.
 */
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { ArchiveUnavailable } from "../../core/retention/Archive.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { Alone } from "./SegmentArchive.ts";
import { interval } from "../../core/time/interval.ts";
import { sleep } from "../../core/time/sleep.ts";

const KEY = "archive";
/** An erasure from one segment takes some requests to the archive. */
const AGAIN_MS = 50;
/** Longer than a lease lasts, and than a bucket's slowest request. */
const WAIT_MS_MAX = 120_000;

/** The returned function rejects with `ArchiveUnavailable` if another process erases too long. */
export function eraseAlone(
  leases: Pick<LeasesShape, "claim" | "renew" | "release" | "ttlMs">,
  time: Pick<TimeShape, "after" | "monotonicMs" | "id">,
): Alone {
  const value = time.id();
  return async (use) => {
    const startMs = time.monotonicMs();
    for (;;) {
      const claimed = await leases.claim(KEY, value);
      if (claimed._tag === "Held") {
        if (time.monotonicMs() - startMs >= WAIT_MS_MAX)
          throw new ArchiveUnavailable({
            message: "another process has been erasing from the archive for two minutes: try again",
          });
        await sleep(time, AGAIN_MS);
        continue;
      }
      const { lease } = claimed;
      // A renewal that fails is noticed by `still`.
      const endRenewals = interval(time, leases.ttlMs / 3, async () => {
        await leases.renew(lease).catch(() => undefined);
      });
      try {
        return await use(async () => {
          if ((await leases.renew(lease))._tag === "Lost")
            throw new ArchiveUnavailable({
              message: "another process began to erase from the archive meanwhile: try again",
            });
        });
      } finally {
        endRenewals();
        await leases.release(lease);
      }
    }
  };
}
