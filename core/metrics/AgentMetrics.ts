/**
 * The metrics that this system has, by name: one place for names, units and help texts, so that a
 * dashboard built on them stays right. Made once per process from the `Metrics` port; hosts and
 * gateways bump the fields. Units are last in a name, seconds and bytes, as Prometheus has it.
 */
import type { MetricsShape } from "./Metrics.ts";

/** Seconds: from one group commit on a fast disk to the longest webhook deadline (9.5 s). */
const LATENCY_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export interface AgentMetrics {
  /** Turns that ended, by what began them and how they ended. */
  readonly turns: (cause: string, outcome: "ok" | "error") => void;
  readonly commits: (by?: number) => void;
  /** Appends refused by the journal's compare-and-set: a stale owner was fenced off. */
  readonly refusedAppends: (by?: number) => void;
  readonly activations: (by?: number) => void;
  readonly hibernations: (by?: number) => void;
  readonly deadLetters: (by?: number) => void;
  /** Durable inputs that were dropped because the agent had already done them. */
  readonly duplicates: (by?: number) => void;
  readonly active: (agents: number) => void;
  readonly shardsOwned: (shards: number) => void;
  readonly connections: (sockets: number) => void;
  /** Inputs stored and not done yet; read when somebody looks. */
  readonly inboxLag: (read: () => number | Promise<number>) => void;
  /** Webhook requests answered, by provider and status. */
  readonly webhooks: (provider: string, status: number) => void;
  readonly commitSeconds: (seconds: number) => void;
  readonly activationSeconds: (seconds: number) => void;
  /** From the request's head to its answer, at the gateway. */
  readonly webhookSeconds: (seconds: number) => void;
}

export function agentMetrics(metrics: MetricsShape): AgentMetrics {
  const turns = byLabels((cause, outcome) =>
    metrics.counter("agents_turns_total", "Turns that ended", { cause, outcome }),
  );
  const webhooks = byLabels((provider, status) =>
    metrics.counter("agents_webhooks_total", "Webhook requests answered", { provider, status }),
  );
  return {
    turns: (cause, outcome) => turns(cause, outcome)(),
    commits: metrics.counter("agents_commits_total", "Journal events stored"),
    refusedAppends: metrics.counter(
      "agents_refused_appends_total",
      "Journal appends refused because another host had written",
    ),
    activations: metrics.counter("agents_activations_total", "Agents brought into memory"),
    hibernations: metrics.counter("agents_hibernations_total", "Agents that left memory when idle"),
    deadLetters: metrics.counter(
      "agents_dead_letters_total",
      "Inputs that exhausted their attempts",
    ),
    duplicates: metrics.counter(
      "agents_duplicate_inputs_total",
      "Inputs dropped because they had been done before",
    ),
    active: metrics.gauge("agents_active", "Agents in memory"),
    shardsOwned: metrics.gauge("agents_shards_owned", "Shards whose lease this host holds"),
    connections: metrics.gauge("agents_connections", "Open WebSocket connections"),
    inboxLag: (read) =>
      metrics.gaugeFrom("agents_inbox_lag", "Inputs stored and not done yet, all shards", read),
    webhooks: (provider, status) => webhooks(provider, String(status))(),
    commitSeconds: metrics.histogram(
      "agents_commit_seconds",
      "From the start of an append until the journal has stored it",
      LATENCY_BOUNDS,
    ),
    activationSeconds: metrics.histogram(
      "agents_activation_seconds",
      "Bringing one agent into memory: snapshot, replay, onStart",
      LATENCY_BOUNDS,
    ),
    webhookSeconds: metrics.histogram(
      "agents_webhook_seconds",
      "From a webhook request's head to its answer",
      LATENCY_BOUNDS,
    ),
  };
}

/** Looks a two-label series up once per pair: a map lookup on the hot path, no object per call. */
function byLabels<A>(make: (first: string, second: string) => A): (a: string, b: string) => A {
  const made = new Map<string, Map<string, A>>();
  return (first, second) => {
    let inner = made.get(first);
    if (inner === undefined) made.set(first, (inner = new Map()));
    let series = inner.get(second);
    if (series === undefined) inner.set(second, (series = make(first, second)));
    return series;
  };
}
