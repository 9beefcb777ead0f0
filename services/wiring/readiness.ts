/**
 * What `/readyz` says of a gateway, a host, or both in one. A load balancer takes whoever is not ready out, so what is
 * not the process's own fault must not count: while a host is dead, all gateways know shards without a host, and all
 * of them still store webhooks and keep sockets; not ready, each would be taken out and nobody would. So a gateway
 * waits for a shard's host only before its first: gateways of a new installation are started with its hosts. That holds
 * also where no shard has a host: what is stored then is done later, and what is refused may never come again. A host, which no
 * load balancer asks, is not ready while any shard is without one.
 */
import { UNOWNED_TTLS_MAX } from "../../core/lease/UnownedShards.ts";
import type { Readiness } from "../admin/AdminServer.ts";

/** As one process sees them; both `Host` and `Gateway` count them so. */
export interface ShardCounts {
  /** Shards without an owner. */
  readonly shardsUnowned: number;
  /** Those of them that have had none for longer than `UNOWNED_TTLS_MAX` TTLs. */
  readonly shardsOverdue: number;
}

export interface ReadinessFacts {
  /** To the broker. */
  readonly connected: boolean;
  /** `ready`: the host has its share of the shards. Undefined: a gateway alone. */
  readonly host: (ShardCounts & { readonly ready: boolean }) | undefined;
  /** Undefined: a host alone. */
  readonly gateway: (ShardCounts & { readonly shardsEverOwned: number }) | undefined;
  readonly shards: number;
  readonly leaseTtlMs: number;
  /** A line for people. */
  readonly durability: string;
}

export function readinessOf(facts: ReadinessFacts): Readiness {
  const { connected, host, gateway, shards, durability } = facts;
  if (!connected) return { ready: false, reason: "the broker can't be reached" };
  const overdue = (count: number): string =>
    `${count} of ${shards} shards have had no host for more than ${(UNOWNED_TTLS_MAX * facts.leaseTtlMs) / 1000} s`;
  if (host !== undefined && !host.ready)
    return {
      ready: false,
      reason:
        host.shardsOverdue > 0 ? overdue(host.shardsOverdue) : "shards are still being claimed",
    };
  if (gateway !== undefined && gateway.shardsEverOwned < shards)
    return { ready: false, reason: "some shards have had no host yet" };
  const notes = [`durability: ${durability}`];
  const without = gateway?.shardsUnowned ?? 0;
  if (without > 0)
    notes.push(
      `hosts: ${without} of ${shards} shards have none; their webhooks are stored, their callers wait`,
    );
  if (gateway !== undefined && gateway.shardsOverdue > 0)
    notes.push(`overdue: ${overdue(gateway.shardsOverdue)}`);
  return { ready: true, note: notes.join("\n") };
}
