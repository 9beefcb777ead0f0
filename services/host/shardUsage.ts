/** What the agents of a shard cost, for `agents top`: the answer to a `usage` call. */
import { costOf, type UsageReply } from "../../core/telemetry/Usage.ts";
import type { AgentSlot } from "./AgentSlot.ts";
import type { HostServices } from "./HostServices.ts";

/** The most agents of one shard in a reply, which stays far below the broker's payload limit. */
const AGENTS_MAX = 50;
/** Agents without a turn for longer are not busy. */
const RECENT_MS = 60_000;

export function shardUsage(
  { config, time, usage }: Pick<HostServices, "config" | "time" | "usage">,
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
    agents: agents.slice(0, AGENTS_MAX),
  };
}
