/**
 * Decides the answer of `/readyz` for a gateway, a host, or both in one process. A load balancer
 * removes a process that is not ready, so a fault outside the process must not count: while a host
 * is dead, every gateway sees shards without a host, and still stores webhooks and keeps sockets.
 * If that made it not ready, all gateways would be removed at once. A gateway therefore waits only
 * until each shard has had a host for the first time, because a new installation starts gateways
 * and hosts together. It stays ready even while no shard has a host (stored webhooks run later,
 * refused ones may never come again), and while the broker stores nothing, which it reports. A
 * host, which no load balancer asks, is not ready while any shard is without an owner.
 */
import { NotPermitted } from "../../core/bus/Bus.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import { UNOWNED_TTLS_MAX } from "../../core/lease/UnownedShards.ts";
import type { RetentionState } from "../../core/retention/RetentionMetrics.ts";
import { counted } from "../../schemas/counted.ts";
import type { Readiness } from "../admin/AdminServer.ts";

/** As one process sees them. `Host` and `Gateway` both count them this way. */
interface ShardCounts {
  readonly shardsUnowned: number;
  /** Shards that have had no owner for longer than `UNOWNED_TTLS_MAX` TTLs. */
  readonly shardsOverdue: number;
}

/** A write that the process tries again and again. */
export interface Unstored {
  /** What the broker has not done: "stored this process's lease". */
  readonly what: string;
  readonly forMs: number;
  /** Why the last attempt failed. `NotPermitted`: the login lacks a right. */
  readonly reason: unknown;
}

export interface ReadinessFacts {
  /** True while the process is connected to the broker. */
  readonly connected: boolean;
  /** `ready`: the host owns its share of the shards. Undefined: a gateway alone. */
  readonly host: (ShardCounts & { readonly ready: boolean }) | undefined;
  /** Undefined: a host alone. */
  readonly gateway: (ShardCounts & { readonly shardsEverOwned: number }) | undefined;
  /** What the broker has not stored for the longest time. */
  readonly unstored?: Unstored | undefined;
  /** What the login lacks, by what the broker refused last. */
  readonly refusal?: string | undefined;
  readonly shards: number;
  readonly leaseTtlMs: number;
  /** A line for people. */
  readonly durability: string;
  /** Undefined: the process trims no journals. */
  readonly retention?: RetentionState | undefined;
}

const waitsFor = (archive: string): string =>
  `history: nothing is trimmed, and nothing is lost, while ${archive}`;

function describeRetention({ leads, failed, reason, waiting }: RetentionState): string {
  if (waiting !== undefined) return waitsFor(waiting);
  if (!leads) return "history: another process trims";
  if (reason === undefined) return "history: trimmed to the limits of classes";
  return `history: ${counted(failed, "agent")} could not be trimmed and ${failed === 1 ? "keeps" : "keep"} all history; the last: ${reason}`;
}

const RIGHTS_REMEDY =
  "Compare the login's rights with deploy/nats/permissions.conf of this release, reload the servers, and restart this process";
const STORAGE_REMEDY =
  'Its disk or a limit may be full, or the stream lost ("agents provision" creates it)';

/** Undefined for what an election of the broker may explain. */
function describeUnstored(unstored: Unstored | undefined, overdueMs: number): string | undefined {
  if (unstored === undefined) return undefined;
  const { what, forMs, reason } = unstored;
  const isRefused = reason instanceof NotPermitted;
  if (forMs <= overdueMs && !isRefused) return undefined;
  const remedy = isRefused ? RIGHTS_REMEDY : STORAGE_REMEDY;
  return `the broker has not ${what} for ${Math.round(forMs / 1000)} s: ${messageOf(reason)}. ${remedy}`;
}

/** A refusal may explain why the process is not ready, or what fails. A reason is one line. */
export function readinessOf(facts: ReadinessFacts): Readiness {
  const { refusal, host, unstored } = facts;
  const readiness = decide(facts);
  if (refusal === undefined) return readiness;
  const told = `${refusal}. ${RIGHTS_REMEDY}`;
  if (readiness.ready) return { ready: true, note: `${readiness.note}\nrights: ${told}` };
  // A host that is not ready for a refused write has named the right.
  return host !== undefined && unstored?.reason instanceof NotPermitted
    ? readiness
    : { ready: false, reason: `${readiness.reason}; ${told}` };
}

function decide(facts: ReadinessFacts): Readiness {
  const { connected, host, gateway, shards, durability } = facts;
  if (!connected) return { ready: false, reason: "the broker can't be reached" };
  const overdueMs = UNOWNED_TTLS_MAX * facts.leaseTtlMs;
  const overdue = (count: number): string =>
    `${count} of ${shards} shards have had no host for more than ${overdueMs / 1000} s`;
  const unstored = describeUnstored(facts.unstored, overdueMs);
  if (host !== undefined && unstored !== undefined) return { ready: false, reason: unstored };
  if (host !== undefined && !host.ready)
    return {
      ready: false,
      reason:
        host.shardsOverdue > 0 ? overdue(host.shardsOverdue) : "shards are still being claimed",
    };
  if (gateway !== undefined && gateway.shardsEverOwned < shards)
    return { ready: false, reason: "some shards have had no host yet" };
  if (facts.retention?.waiting !== undefined && host === undefined)
    return { ready: false, reason: waitsFor(facts.retention.waiting) };
  const notes = [`durability: ${durability}`];
  if (unstored !== undefined) notes.push(`storage: ${unstored}`);
  const without = gateway?.shardsUnowned ?? 0;
  if (without > 0)
    notes.push(
      `hosts: ${without} of ${shards} shards have none; their webhooks are stored, and their callers wait`,
    );
  if (gateway !== undefined && gateway.shardsOverdue > 0)
    notes.push(`overdue: ${overdue(gateway.shardsOverdue)}`);
  if (facts.retention !== undefined) notes.push(describeRetention(facts.retention));
  return { ready: true, note: notes.join("\n") };
}
