/**
 * Leases in memory: `LeaseStore` as one process uses it over its connection. Only the process that
 * claimed a lease can renew it, as in `NatsLeases`. A watch lists the leases again after a lost
 * connection, and reports what has changed meanwhile.
 */
import * as Layer from "effect/Layer";
import {
  Leases,
  type ClaimResult,
  type Lease,
  type LeaseChange,
  type LeasesShape,
} from "../../core/lease/Leases.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryLeases(connection: MemoryConnection): LeasesShape {
  const { leases, leaseTtlMs } = connection.broker;
  /** By key: the last lease that this process has claimed and not found lost. */
  const held = new Map<string, Lease>();
  const claimed = (lease: Lease | undefined): ClaimResult => {
    if (lease === undefined) return { _tag: "Held" };
    held.set(lease.key, lease);
    return { _tag: "Claimed", lease };
  };
  /** The claim that the lease is of; undefined when this process has lost it. */
  const mineOf = ({ key, epoch }: Lease): Lease | undefined => {
    const mine = held.get(key);
    return mine?.epoch === epoch ? mine : undefined;
  };
  /** The key may be held by a later claim of this process. */
  const forget = (mine: Lease): void => {
    if (held.get(mine.key) === mine) held.delete(mine.key);
  };
  return {
    ttlMs: leaseTtlMs,
    claim: async (key, value) => {
      await connection.operation("claim", key);
      return claimed(leases.claim(key, value));
    },
    renew: async (lease, value) => {
      const mine = mineOf(lease);
      if (mine === undefined) return { _tag: "Lost" };
      await connection.operation("renew", lease.key);
      if (leases.renew(lease, value ?? lease.value)) return { _tag: "Renewed" };
      forget(mine);
      return { _tag: "Lost" };
    },
    supersede: async (lease, value) => {
      const mine = mineOf(lease);
      if (mine === undefined) return { _tag: "Held" };
      await connection.operation("supersede", lease.key);
      const next = leases.supersede(lease, value);
      if (next === undefined) forget(mine);
      return claimed(next);
    },
    release: async (lease) => {
      const mine = mineOf(lease);
      if (mine === undefined) return;
      // Best effort: a lease that cannot be released now expires.
      await connection.operation("release", lease.key).then(
        () => leases.release(lease),
        () => undefined,
      );
      forget(mine);
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
