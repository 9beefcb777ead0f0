/**
 * The two timers of a schedule's due time: one of this process, exact to the millisecond, and one
 * of the broker's, for when the agent is not in memory. `Scheduler` says when the former,
 * `AlarmCover` when the latter; what fires is checked there.
 *
 * The broker's has a name for each due time, not for each schedule: arming a new one never takes
 * the old one away before the commit that moved it is stored. What is left over fires once, and is
 * dropped.
 */
import { fnv1a32 } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { BrokerUnavailable } from "../bus/Bus.ts";
import type { ScheduleRow } from "./ScheduleTable.ts";
import type { TimersShape } from "./Timers.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { DUE_MS_MAX, dueOf } from "./dueTimes.ts";
import { SparseMap } from "../collections/sparse.ts";

/** A day: a timer costs little, and the agent seldom stays in memory longer without one. */
const LOCAL_TIMER_MS_MAX = 24 * 3600 * 1000;
/** The broker is away: asked again after this, as long as the agent is ours. */
const REARM_MS = 250;

/** The agent whose timers they are. */
export type AlarmsAgent = Pick<AgentTurns, "id" | "time" | "discarded" | "sleep">;

export class Alarms {
  private readonly agent: AlarmsAgent;
  private readonly timers: TimersShape;
  private readonly onDue: (id: string, dueMs: number) => void;
  /** What cancels this process's timer, by schedule. */
  private readonly local = new SparseMap<string, () => void>();

  constructor(agent: AlarmsAgent, timers: TimersShape, onDue: (id: string, dueMs: number) => void) {
    this.agent = agent;
    this.timers = timers;
    this.onDue = onDue;
  }

  /**
   * Resolves when the broker has it. Rejects with `AgentDiscarded`, or what makes it impossible.
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

  /** Takes the broker's timer back, if it has not fired. Best effort. */
  disarm(row: ScheduleRow): void {
    const dueMs = dueOf(row);
    if (dueMs === undefined || dueMs < this.agent.time.nowMs() || dueMs > DUE_MS_MAX) return;
    void this.timers.disarm(this.agent.id, nameOf(row.id, dueMs)).catch(() => undefined);
  }

  armLocally(row: ScheduleRow): void {
    this.disarmLocally(row.id);
    const dueMs = dueOf(row);
    if (dueMs === undefined || this.agent.discarded) return;
    const { time } = this.agent;
    const waitMs = dueMs - time.nowMs();
    // Beyond this the agent will hardly be in memory still, and the broker's timer serves.
    if (waitMs > LOCAL_TIMER_MS_MAX) return;
    const cancel = time.after(Math.max(0, waitMs), () => {
      this.local.delete(row.id);
      // Timers of the machine may be early by a fraction, and its clock may have been set back.
      if (time.nowMs() < dueMs) this.armLocally(row);
      else this.onDue(row.id, dueMs);
    });
    this.local.set(row.id, cancel);
  }

  disarmLocally(id: string): void {
    this.local.get(id)?.();
    this.local.delete(id);
  }

  /** The agent leaves memory: the broker's timers remain. */
  stop(): void {
    for (const cancel of this.local.values()) cancel();
    this.local.clear();
  }
}

/** The broker's timer of a schedule's due time; undefined for a row that can't be armed. */
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
 * Users' SQL may put anything there; it is only for those who look at the inbox, and a timer must
 * always fit into a message.
 */
const TYPE_LENGTH_MAX = 256;

/** Of one due time of one schedule: in its trigger and in the journal. */
export const keyOf = (id: string, dueMs: number): string => `schedule:${id}:${dueMs}`;

export function readKey(key: string): [id: string, dueMs: number] {
  const at = key.lastIndexOf(":");
  return [key.slice("schedule:".length, at), Number(key.slice(at + 1))];
}

/** Users may choose ids; the broker's subjects are short. */
const ID_LENGTH_MAX = 64;
/**
 * Another start of the hash makes it another hash: 64 bits for those of one agent and one instant.
 */
const SECOND_SEED = 0x01234567;

function nameOf(id: string, dueMs: number): string {
  if (id.length <= ID_LENGTH_MAX) return `${dueMs}-${id}`;
  return `${dueMs}-long-${fnv1a32(id).toString(16)}-${fnv1a32(id, SECOND_SEED).toString(16)}`;
}
