/**
 * The broker's timers of an agent's schedules: scheduled messages that wake the agent when it is
 * not in memory. `AlarmCover` decides which ones are armed.
 *
 * A timer is named by its schedule and due time. Arming a new due time therefore never cancels the
 * old timer before the commit that moved the schedule is stored. A timer that is left over fires
 * once, and its delivery is dropped.
 */
import { fnv1a32 } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { BrokerUnavailable } from "../bus/Bus.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { DUE_MS_MAX, dueOf } from "./dueTimes.ts";
import { keyOf } from "./planAlarms.ts";
import type { ScheduleRow } from "./ScheduleTable.ts";
import type { TimersShape } from "./Timers.ts";

/** Pause before a broker that is unreachable is asked again. */
const REARM_MS = 250;

type TimersAgent = Pick<AgentTurns, "id" | "time" | "sleep">;

export class BrokerTimers {
  constructor(
    private readonly agent: TimersAgent,
    private readonly timers: TimersShape,
  ) {}

  /**
   * Resolves when the broker has stored the timer. Tries again for as long as the broker is
   * unreachable. Rejects with `AgentDiscarded`, or with the broker's refusal.
   */
  async arm(row: ScheduleRow): Promise<void> {
    const { agent } = this;
    const timer = timerOf(row);
    if (timer === undefined) return;
    for (;;) {
      try {
        return await this.timers.arm(agent.id, timer.name, timer.dueMs, timer.envelope);
      } catch (error) {
        if (!(error instanceof BrokerUnavailable)) throw error;
        await agent.sleep(REARM_MS);
      }
    }
  }

  /** Cancels the row's timer unless it is due. Best effort. */
  disarm(row: ScheduleRow): void {
    const dueMs = dueOf(row);
    if (dueMs === undefined || dueMs < this.agent.time.nowMs() || dueMs > DUE_MS_MAX) return;
    void this.timers.disarm(this.agent.id, nameOf(row.id, dueMs)).catch(() => undefined);
  }
}

/** The timer of a row's due time. Undefined for a row that can't be armed. */
export function timerOf(
  row: ScheduleRow,
): { readonly name: string; readonly dueMs: number; readonly envelope: Uint8Array } | undefined {
  const dueMs = dueOf(row);
  if (dueMs === undefined || dueMs > DUE_MS_MAX) return undefined;
  const envelope = encodeEnvelope({
    key: keyOf(row.id, dueMs),
    kind: "schedule",
    type: row.callback.slice(0, TYPE_LENGTH_MAX),
    time: dueMs,
  });
  return { name: nameOf(row.id, dueMs), dueMs, envelope };
}

/**
 * The type is only for people who look at the inbox. Users' SQL may put any text there, and a timer
 * always has to fit into a message.
 */
const TYPE_LENGTH_MAX = 256;
/** Users may choose ids. Subjects of the broker are short. */
const ID_LENGTH_MAX = 64;
/** A second seed makes a second hash: 64 bits for the timers of one agent and one instant. */
const SECOND_SEED = 0x01234567;

function nameOf(id: string, dueMs: number): string {
  if (id.length <= ID_LENGTH_MAX) return `${dueMs}-${id}`;
  return `${dueMs}-long-${fnv1a32(id).toString(16)}-${fnv1a32(id, SECOND_SEED).toString(16)}`;
}
