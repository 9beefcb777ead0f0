/**
 * What `/readyz` says of a gateway, a host, or both in one. A load balancer takes whoever is not ready out, so what is
 * not the process's own fault must not count: while a host is dead, all gateways know shards without a host, and all
 * of them still store webhooks and keep sockets; not ready, each would be taken out and nobody would. So a gateway
 * waits for a shard's host only before its first: gateways of a new installation are started with its hosts.
 */
import type { Readiness } from "../admin/AdminServer.ts";

export interface ReadinessFacts {
  /** To the broker. */
  readonly connected: boolean;
  /** Whether the host has its share of the shards. Undefined: a gateway alone. */
  readonly host: boolean | undefined;
  /** Undefined: a host alone. */
  readonly gateway: { readonly shardsOwned: number; readonly shardsEverOwned: number } | undefined;
  readonly shards: number;
  /** A line for people. */
  readonly durability: string;
}

export function readinessOf(facts: ReadinessFacts): Readiness {
  const { connected, host, gateway, shards, durability } = facts;
  if (!connected) return { ready: false, reason: "the broker can't be reached" };
  if (host === false) return { ready: false, reason: "shards are still being claimed" };
  if (gateway !== undefined && gateway.shardsEverOwned < shards)
    return { ready: false, reason: "some shards have had no host yet" };
  const notes = [`durability: ${durability}`];
  const without = gateway === undefined ? 0 : shards - gateway.shardsOwned;
  if (without > 0)
    notes.push(
      `hosts: ${without} of ${shards} shards have none; their webhooks are stored, their callers wait`,
    );
  return { ready: true, note: notes.join("\n") };
}
