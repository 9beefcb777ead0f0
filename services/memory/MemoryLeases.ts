/**
 * Leases in memory: `LeaseStore` as one connection uses it. A watch lists the leases again after a
 * lost connection, and reports what has changed meanwhile.
 */
import * as Layer from "effect/Layer";
import { Leases, type LeaseChange, type LeasesShape } from "../../core/lease/Leases.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryLeases(connection: MemoryConnection): LeasesShape {
  const { leases, leaseTtlMs } = connection.broker;
  return {
    ttlMs: leaseTtlMs,
    claim: async (key, value) => {
      await connection.operation("claim", key);
      const lease = leases.claim(key, value);
      return lease === undefined ? { _tag: "Held" } : { _tag: "Claimed", lease };
    },
    renew: async (lease, value) => {
      await connection.operation("renew", lease.key);
      return { _tag: leases.renew(lease, value ?? lease.value) ? "Renewed" : "Lost" };
    },
    supersede: async (lease, value) => {
      await connection.operation("supersede", lease.key);
      const next = leases.supersede(lease, value);
      return next === undefined ? { _tag: "Held" } : { _tag: "Claimed", lease: next };
    },
    release: async (lease) => {
      // Best effort: a lease that cannot be released now expires.
      await connection.operation("release", lease.key).then(
        () => leases.release(lease),
        () => undefined,
      );
    },
    watch: (onChange, signal) => watch(connection, onChange, signal),
    list: async (prefix) => {
      await connection.operation("list", prefix);
      return leases.live().flatMap(({ lease }) => (lease.key.startsWith(prefix) ? [lease] : []));
    },
  };
}

function watch(
  connection: MemoryConnection,
  onChange: (change: LeaseChange) => void,
  signal: AbortSignal,
): Promise<void> {
  const { leases } = connection.broker;
  const known = new Map<string, { value: string; revision: number }>();
  const report = (change: LeaseChange): void => {
    const { key, value, revision } = change;
    const before = known.get(key)?.value;
    if (value === undefined) known.delete(key);
    else known.set(key, { value, revision });
    if (before !== value) onChange(change);
  };
  return new Promise((resolve) => {
    const list = (): void => {
      if (!connection.connected || signal.aborted) return;
      const live = leases.live();
      const keys = new Set(live.map(({ lease }) => lease.key));
      for (const { lease, revision } of live)
        report({ key: lease.key, value: lease.value, revision });
      for (const [key, { revision }] of known)
        if (!keys.has(key)) report({ key, value: undefined, revision });
      resolve();
    };
    let inFlight = 0;
    const offStore = leases.watch((change) => {
      const { key, value, revision } = change;
      const before = known.get(key);
      // Most changes are renewals, which are not reported.
      if (inFlight === 0 && before !== undefined && before.value === value) {
        if (connection.connected) before.revision = revision;
        return;
      }
      // A change is never reported inside the call that made it.
      inFlight++;
      queueMicrotask(() => {
        inFlight--;
        if (connection.connected && !signal.aborted) report(change);
      });
    });
    const offChange = connection.onChange((up) => {
      if (up) queueMicrotask(list);
    });
    const stop = (): void => {
      offStore();
      offChange();
      resolve();
    };
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    else queueMicrotask(list);
  });
}

export const layer = (connection: MemoryConnection): Layer.Layer<Leases> =>
  Layer.succeed(Leases, makeMemoryLeases(connection));
