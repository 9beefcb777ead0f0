/**
 * What the agents of a shard cost, for `agents top` (the answer to a `usage` call), and their
 * stalls.
 */
import { costOf, type Meter, type UsageReply } from "../../core/telemetry/Usage.ts";
import { shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";
import type { AgentSlot } from "./AgentSlot.ts";
import type { HostServices } from "./HostServices.ts";

/** The most agents of one shard in a reply, which stays far below the broker's payload limit. */
const AGENTS_MAX = 50;
/** Agents without a turn for longer are not busy. */
const RECENT_MS = 60_000;

export function shardUsage(
  { config, metrics, time, usage }: Pick<HostServices, "config" | "metrics" | "time" | "usage">,
  slots: Iterable<
    Pick<AgentSlot, "id" | "agent"> & { readonly outstanding: { readonly size: number } }
  >,
): UsageReply {
  const sinceMs = time.monotonicMs() - RECENT_MS;
  const agents: Array<UsageReply["agents"][number]> = [];
  for (const { id, agent, outstanding } of slots)
    if (agent !== undefined && (agent.lastActiveMs >= sinceMs || agent.busy > 0))
      agents.push({
        class: id.class,
        name: id.name,
        ...costOf(agent.parts.meter),
        waiting: outstanding.size,
      });
  agents.sort((a, b) => b.turnMs - a.turnMs);
  return {
    host: config.hostId,
    classes: usage.classes.map(([name, cost]) => ({ class: name, ...costOf(cost) })),
    budgets: metrics.budgets(),
    agents: agents.slice(0, AGENTS_MAX),
  };
}

/** Counts the stalls of this process's turns, from now on. */
export function countStalls(
  { config, usage, onStall }: Pick<HostServices, "config" | "usage" | "onStall">,
  owned: (shard: ShardId) => { readonly meterOf: (id: AgentId) => Meter | undefined } | undefined,
): void {
  onStall?.((id, ms) => {
    // The agent may have left memory since.
    const meter = owned(shardOf(id, config.shards))?.meterOf(id) ?? usage.ofClass(id.class);
    meter.stall(ms);
  });
}
