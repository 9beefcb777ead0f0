/**
 * What `IsolationWard` remembers of agents beyond their isolation: how often they were isolated,
 * their holds of workers' threads, and the processes that they have ended. Kept in memory, for the
 * agents that were last written of.
 */
import type { AgentKey } from "../../core/input/Isolation.ts";
import { judgeEnds, type KilledProcess } from "../../core/quarantine/quarantineRule.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { Ending } from "../watchdog/reports.ts";
import { judgeHolds, type Hold } from "./judgeHolds.ts";
import { nameOf } from "./messages.ts";

/** Longer than the pauses between the attempts of one input. */
const CLEAN_MS = 20_000;
/** Each time that the agent is isolated again. */
const CLEAN_FACTOR = 4;
const CLEAN_MS_MAX = 3_600_000;
/** Past this bound the agent that was written of least recently is forgotten. */
const AGENTS_MAX = 1_000;

interface AgentRecord {
  /** How often it was isolated. */
  times: number;
  /** Its holds of a worker's thread that may count. */
  holds: ReadonlyArray<Hold>;
  ends: ReadonlyArray<KilledProcess>;
  condemned: string | undefined;
}

export class AgentRecords {
  private readonly records = new Map<string, AgentRecord>();
  private calls = 0;

  constructor(private readonly time: Pick<TimeShape, "monotonicMs">) {}

  /** Returns for how long the agent has to stay clean before it may return. */
  isolated(agent: AgentKey): number {
    const record = this.of(agent);
    record.holds = [];
    return Math.min(CLEAN_MS_MAX, CLEAN_MS * CLEAN_FACTOR ** record.times++);
  }

  /** Returns the seconds that it has held the thread, if they are too many. */
  held(agent: AgentKey, hold: Hold): number | undefined {
    const record = this.of(agent);
    const { holds, overSeconds } = judgeHolds(record.holds, hold);
    record.holds = holds;
    return overSeconds;
  }

  /** The agent has ended a process. It may be condemned by that (`judgeEnds`). */
  ended(agent: AgentKey, ending: Ending | undefined): void {
    const record = this.of(agent);
    const turn = ending?.turn;
    // A call has no key: each is a separate input.
    const input = turn === undefined ? "unknown" : (turn.key ?? `${turn.turn} ${++this.calls}`);
    const { ends, over } = judgeEnds(record.ends, { atMs: this.time.monotonicMs(), input });
    record.ends = ends;
    if (over)
      record.condemned = `its turns have ended ${ends.length} processes within ten minutes${ending === undefined ? "" : `, the last one because ${ending.reason}`}`;
  }

  /** Why the agent is condemned, once: its ends then count from the beginning. */
  takeCondemnation(agent: AgentKey): string | undefined {
    const record = this.records.get(nameOf(agent));
    if (record?.condemned === undefined) return undefined;
    const { condemned } = record;
    record.condemned = undefined;
    record.ends = [];
    return condemned;
  }

  private of(agent: AgentKey): AgentRecord {
    const name = nameOf(agent);
    const record = this.records.get(name) ?? {
      times: 0,
      holds: [],
      ends: [],
      condemned: undefined,
    };
    this.records.delete(name);
    if (this.records.size >= AGENTS_MAX) this.records.delete(this.records.keys().next().value!);
    this.records.set(name, record);
    return record;
  }
}
