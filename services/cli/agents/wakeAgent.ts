/**
 * Arms the timers of an agent whose journal was written by a command instead of its host, and wakes
 * it. An activation assumes that the broker's timers are armed, and nothing else would activate an
 * agent that has queue items. Used by `import`, `fork` and `restore`.
 */
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { timerOf } from "../../../core/schedule/BrokerTimers.ts";
import { ScheduleTable } from "../../../core/schedule/ScheduleTable.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import { isUnreadable } from "../../../schemas/Frame.ts";
import { encodeEnvelope } from "../../../schemas/InboxEnvelope.ts";
import { STORE_TIMEOUT_MS, type ReadPorts } from "../../wiring/ReadPorts.ts";
import { failed } from "../terminal/CliError.ts";

/**
 * Arms a timer for each of the agent's schedules and returns their number. An agent whose journal
 * is damaged has none.
 */
export async function armTimers(ports: ReadPorts, id: AgentId): Promise<number> {
  const rebuilt = await rebuildAgent(id, ports).catch((error: unknown) => {
    if (isUnreadable(error)) return undefined;
    throw error;
  });
  if (rebuilt === undefined) return 0;
  try {
    const table = new ScheduleTable(rebuilt.database);
    let armed = 0;
    for (const row of table.exists ? table.all() : []) {
      const timer = timerOf(row);
      if (timer === undefined) continue;
      await ports.timers.arm(id, timer.name, timer.dueMs, timer.envelope);
      armed++;
    }
    return armed;
  } finally {
    rebuilt.database.close();
  }
}

/** Stores an input that activates the agent. Throws `CliError`. */
export async function wakeAgent(
  { inbox }: ReadPorts,
  time: Pick<TimeShape, "id" | "nowMs">,
  id: AgentId,
): Promise<void> {
  // A trigger for a queue item that does not exist, which is dropped once the agent has started.
  const input = encodeEnvelope({ key: `queue:${time.id()}`, kind: "queue", time: time.nowMs() });
  const stored = await inbox.publish(id, input, { signal: AbortSignal.timeout(STORE_TIMEOUT_MS) });
  if (stored._tag !== "Stored")
    throw failed(
      `${addressKey(id)} was created, but could not be woken (${stored.message}). Call it once, so that its queue runs.`,
    );
}
