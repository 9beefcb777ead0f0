/**
 * The metrics of the process that trims journals, as `AgentMetrics` has those of hosts
 * and gateways, and its state for `/readyz`. Fed by `services/retention`.
 */
import { gaugesOf } from "../telemetry/AgentMetrics.ts";
import type { MetricsShape } from "../telemetry/Metrics.ts";

export interface RetentionMetrics {
  /** Events of an agent were removed, with their number and bytes. */
  readonly trimmed: (events: number, bytes: number) => void;
  readonly failures: () => void;
  readonly archiveFailures: () => void;
  /** These are read when metrics are collected. */
  readonly leads: (read: () => number) => void;
  readonly untrimmed: (read: () => number) => void;
  /** Seconds since the epoch; 0: no walk has ended here. */
  readonly lastWalk: (read: () => number) => void;
}

/** For people: `/readyz`. */
export interface RetentionState {
  readonly leads: boolean;
  /** Agents that the last finished walk could not trim. */
  readonly failed: number;
  /** The last failure. */
  readonly reason: string | undefined;
  /** Why nothing is trimmed now: the archive's failure. */
  readonly waiting: string | undefined;
}

export function retentionMetrics(metrics: MetricsShape): RetentionMetrics {
  const events = metrics.counter(
    "agents_history_trimmed_events_total",
    "Journal events that were trimmed",
  );
  const bytesTrimmed = metrics.counter(
    "agents_history_trimmed_bytes_total",
    "Bytes of journal events that were trimmed",
  );
  const gauge = gaugesOf(metrics);
  return {
    trimmed: (count, bytes) => {
      events(count);
      bytesTrimmed(bytes);
    },
    failures: metrics.counter(
      "agents_history_trim_failures_total",
      "Times that an agent's journal could not be trimmed",
    ),
    archiveFailures: metrics.counter(
      "agents_archive_failures_total",
      "Times that the archive could not be written, after which trimming waits",
    ),
    leads: gauge(
      "agents_retention_leads",
      "1: this process is the one that trims journals; 0: another one is, or none",
    ),
    untrimmed: gauge(
      "agents_history_untrimmed_agents",
      "Agents that the last walk could not trim: their journals are kept whole",
    ),
    lastWalk: gauge(
      "agents_history_last_walk_seconds",
      "When the last walk through all journals ended, seconds since the epoch; 0: none has",
    ),
  };
}
