/**
 * Arms the timers of an agent whose journal was written by a command instead of its host, and wakes
 * it. An activation assumes that the broker's timers are armed, and nothing else would activate an
 * agent that has queue items. Used by `import`, `fork` and `restore`, and by `provision` for all
 * agents when the broker has lost their timers or triggers.
 */
import { CALLS_TABLE } from "../../../core/durableCall/CallLane.ts";
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { MAIL_TABLE } from "../../../core/outgoing/MailLane.ts";
import { OUTGOING_TABLE } from "../../../core/outgoing/OutgoingLane.ts";
import { QUEUE_TABLE, QueueTable } from "../../../core/queue/QueueTable.ts";
import { timerOf } from "../../../core/schedule/BrokerTimers.ts";
import { ScheduleTable } from "../../../core/schedule/ScheduleTable.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { SIGNALS_TABLE } from "../../../core/workflow/SignalLane.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import { isUnreadable } from "../../../schemas/Frame.ts";
import { encodeEnvelope } from "../../../schemas/InboxEnvelope.ts";
import { STORE_TIMEOUT_MS, type ReadPorts } from "../../wiring/ReadPorts.ts";
import { failed } from "../terminal/CliError.ts";
import type { Progress } from "../terminal/Progress.ts";
import { inParallel } from "./inParallel.ts";

/** Each rebuilds an agent in memory. */
const AGENTS_AT_ONCE = 4;
/** Their rows wait for triggers in the inbox. */
const LANES = [QUEUE_TABLE, CALLS_TABLE, SIGNALS_TABLE, OUTGOING_TABLE, MAIL_TABLE];

/**
 * Arms a timer for each of the agent's schedules and returns their number. An agent whose journal
 * is damaged has none.
 */
export const armTimers = async (ports: ReadPorts, id: AgentId): Promise<number> =>
  (await armAgent(ports, id)).timers;

/**
 * Arms the timers of all agents, and wakes those with queue items. Hosts may run meanwhile: a timer
 * or trigger that is no longer wanted has no effect. Throws `CliError`.
 */
export async function armAll(
  ports: ReadPorts,
  time: Pick<TimeShape, "id" | "nowMs">,
  progress: Progress,
): Promise<{ readonly timers: number; readonly woken: number }> {
  const ids: AgentId[] = [];
  for await (const { id } of ports.journal.list()) ids.push(id);
  const total = { timers: 0, woken: 0 };
  let done = 0;
  await inParallel(ids, AGENTS_AT_ONCE, async (id) => {
    const { timers, isQueued } = await armAgent(ports, id);
    if (isQueued) await wakeAgent(ports, time, id);
    total.timers += timers;
    total.woken += isQueued ? 1 : 0;
    progress.tell(++done, ids.length);
  });
  progress.end();
  return total;
}

/** `isQueued`: it has items that wait for a trigger. */
async function armAgent(
  ports: ReadPorts,
  id: AgentId,
): Promise<{ readonly timers: number; readonly isQueued: boolean }> {
  const rebuilt = await rebuildAgent(id, ports).catch((error: unknown) => {
    if (isUnreadable(error)) return undefined;
    throw error;
  });
  if (rebuilt === undefined) return { timers: 0, isQueued: false };
  try {
    const table = new ScheduleTable(rebuilt.database);
    let timers = 0;
    for (const row of table.exists ? table.all() : []) {
      const timer = timerOf(row);
      if (timer === undefined) continue;
      await ports.timers.arm(id, timer.name, timer.dueMs, timer.envelope);
      timers++;
    }
    const isQueued = LANES.some((lane) => new QueueTable(rebuilt.database, lane).count() > 0);
    return { timers, isQueued };
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
      `${addressKey(id)} is stored, but could not be woken (${stored.message}). Call it once, so that its queue runs.`,
    );
}
