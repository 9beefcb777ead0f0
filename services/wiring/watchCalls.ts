/**
 * Calls of commands, which notice the loss of the host that has them, as calls of gateways and
 * hosts do. A command's other work needs no leases, so they are watched only once a call takes
 * long.
 *
 * 1. The watch begins before the lease of a host that died with the call can be over: one that is
 *    lost without having been seen would go unnoticed.
 * 2. The calls of a login that may not watch leases go on, to their deadlines.
 */
import { LeaseView } from "../../core/lease/LeaseView.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import type { TimeShape } from "../../core/time/Time.ts";

/** Rule 1: a lease is renewed each third of its life, so it lives for two more. */
const LEASE_PARTS = 3;

interface WatchedCalls extends Pick<CallClient, "call"> {
  /** Ends the watch. */
  readonly close: () => void;
}

export function watchCalls(
  calls: Pick<CallClient, "call" | "leaseChanged">,
  leases: Pick<LeasesShape, "ttlMs" | "watch">,
  time: Pick<TimeShape, "after">,
): WatchedCalls {
  const ended = new AbortController();
  let begun = false;
  const begin = (): void => {
    if (begun) return;
    begun = true;
    const view = new LeaseView();
    void leases
      .watch((change) => calls.leaseChanged(change, view.heard(change)), ended.signal)
      .catch(() => undefined); // rule 2
  };
  return {
    call: (id, call, options) => {
      const cancel = time.after(leases.ttlMs / LEASE_PARTS, begin);
      return calls.call(id, call, options).finally(cancel);
    },
    close: () => ended.abort(),
  };
}
