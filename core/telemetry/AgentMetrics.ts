/**
 * The metrics that this system has, by name: one place for names, units and help texts, so that a
 * dashboard built on them stays right. Made once per process from the `Metrics` port; hosts and
 * gateways bump the fields. Units are last in a name, seconds and bytes, as Prometheus has it.
 */
import type { MetricsShape } from "./Metrics.ts";
import type { ClassMetrics } from "./Usage.ts";

/** Seconds: from one group commit on a fast disk to the longest webhook deadline (9.5 s). */
const LATENCY_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const MS_PER_SECOND = 1000;

export interface AgentMetrics {
  readonly turns: () => void;
  /** One journal event was stored. */
  readonly commits: (bytes: number) => void;
  /** An append was refused by the journal's compare-and-set: a stale owner was fenced off. */
  readonly refusedAppends: () => void;
  /** One agent was brought into memory by replaying so many events. */
  readonly activations: (events: number) => void;
  readonly hibernations: () => void;
  readonly snapshots: () => void;
  readonly deadLetters: () => void;
  /** An agent was quarantined. */
  readonly quarantines: () => void;
  /** A durable input was dropped because the agent had already done it. */
  readonly duplicates: () => void;
  /**
   * A webhook of one entity was refused by the agent of another, for which `slug` returns the same
   * name.
   */
  readonly entityConflicts: () => void;
  /** An error that nothing handled; `of`: the agent's class, undefined where it is of no agent. */
  readonly unhandledErrors: (of: string | undefined) => void;
  /** So much of a budget was spent by an agent of this class. */
  readonly budgetSpent: (agentClass: string, budget: string, amount: number) => void;
  /** `spend` refused, since the budget was used up. */
  readonly budgetRefused: (agentClass: string, budget: string) => void;
  /** A turn did not end in time and was given up; `of`: the agent's class. */
  readonly turnsGivenUp: (of: string) => void;
  /** A webhook was answered 429, for too many inputs of its agent wait; `of`: its class. */
  readonly refusedInputs: (of: string) => void;
  /** What the agents of a class cost. */
  readonly ofClass: (name: string) => ClassMetrics;
  /** These are read when somebody looks. */
  readonly active: (agents: () => number) => void;
  /** How many agents of the host's shards are quarantined. */
  readonly quarantined: (agents: () => number) => void;
  /** The memory that a host uses: 1 is all that it may take. */
  readonly memoryInUse: (share: () => number) => void;
  readonly connections: (sockets: () => number) => void;
  readonly inboxLag: (inputs: () => number | Promise<number>) => void;
  /** What a gateway or a host knows of the hosts' leases. */
  readonly shardsWithoutHost: (shards: () => number) => void;
  /** Delivery records that this process could not store. */
  readonly deliveryRecordsDropped: (records: () => number) => void;
  /** 1 while the broker is known to write to disk before it acknowledges, 0 otherwise. */
  readonly durable: (isDurable: () => number) => void;
  /** How long the broker takes to answer, in seconds; measured when somebody looks. */
  readonly roundTrip: (seconds: () => Promise<number>) => void;
  /** A webhook request was answered, `seconds` after its head was in. */
  readonly webhooks: (provider: string, status: number, seconds: number) => void;
}

export function agentMetrics(metrics: MetricsShape): AgentMetrics {
  const count = (name: string, help: string) => metrics.counter(`agents_${name}_total`, help);
  const commits = count("commits", "Journal events stored");
  const commitBytes = count("commit_bytes", "Bytes of journal events stored");
  const activations = count("activations", "Agents brought into memory");
  const replayed = count("replayed_events", "Journal events replayed to bring agents into memory");
  const webhooks = byLabels((provider, status) =>
    metrics.counter("agents_webhooks_total", "Webhook requests answered", { provider, status }),
  );
  const unhandled = byLabels((agentClass) =>
    metrics.counter(
      "agents_unhandled_errors_total",
      "Errors that no code handled; the class is empty where no agent's code ran",
      { class: agentClass },
    ),
  );
  const budgetNames = boundedNames();
  const budgetSpent = byLabels((agentClass, budget) =>
    metrics.counter("agents_budget_spent_total", "What agents spent of their budgets", {
      class: agentClass,
      budget,
    }),
  );
  const budgetRefused = byLabels((agentClass, budget) =>
    metrics.counter("agents_budget_refused_total", "Calls refused by a budget that was used up", {
      class: agentClass,
      budget,
    }),
  );
  const turnsGivenUp = byLabels((agentClass) =>
    metrics.counter("agents_turns_given_up_total", "Turns that did not end within turnSeconds", {
      class: agentClass,
    }),
  );
  const refusedInputs = byLabels((agentClass) =>
    metrics.counter(
      "agents_refused_inputs_total",
      "Webhooks answered 429 because too many inputs of their agent wait (waitingMax)",
      { class: agentClass },
    ),
  );
  const webhookSeconds = metrics.histogram(
    "agents_webhook_seconds",
    "From a webhook request's head to its answer",
    LATENCY_BOUNDS,
  );
  return {
    turns: count("turns", "Turns that ended"),
    commits: (bytes) => {
      commits();
      commitBytes(bytes);
    },
    refusedAppends: count(
      "refused_appends",
      "Journal appends refused because another host had written",
    ),
    activations: (events) => {
      activations();
      replayed(events);
    },
    hibernations: count("hibernations", "Agents that left memory when idle"),
    snapshots: count("snapshots", "Snapshots stored"),
    deadLetters: count("dead_letters", "Inputs that exhausted their attempts"),
    quarantines: count("quarantines", "Agents quarantined: set aside, with their inputs stored"),
    duplicates: count("duplicate_inputs", "Inputs dropped because they had been done before"),
    entityConflicts: count(
      "entity_conflicts",
      "Webhooks refused because slug gives their entity the name of another entity's agent",
    ),
    unhandledErrors: (of = "") => unhandled(of, "")(),
    ofClass: (name) => {
      const of = (what: string, help: string) =>
        metrics.counter(`agents_class_${what}_total`, help, { class: name });
      const turns = of("turns", "Turns of agents of the class");
      const turnSeconds = of("turn_seconds", "Seconds in turns of the class, waits included");
      const stored = of("commits", "Journal events stored for the class");
      const bytes = of("commit_bytes", "Bytes of journal events stored for the class");
      return {
        turn: (ms) => {
          turns();
          turnSeconds(ms / MS_PER_SECOND);
        },
        commit: (size) => {
          stored();
          bytes(size);
        },
      };
    },
    budgetSpent: (agentClass, budget, amount) =>
      budgetSpent(agentClass, budgetNames(budget))(amount),
    budgetRefused: (agentClass, budget) => budgetRefused(agentClass, budgetNames(budget))(),
    refusedInputs: (of) => refusedInputs(of, "")(),
    turnsGivenUp: (of) => turnsGivenUp(of, "")(),
    active: (read) => metrics.gaugeFrom("agents_active", "Agents in memory", read),
    quarantined: (read) =>
      metrics.gaugeFrom("agents_quarantined", "Agents that are quarantined now", read),
    memoryInUse: (read) =>
      metrics.gaugeFrom(
        "agents_memory_in_use",
        "Share of a host's memory that is in use; from 0.75 on idle agents leave sooner",
        read,
      ),
    connections: (read) =>
      metrics.gaugeFrom("agents_connections", "Open WebSocket connections", read),
    inboxLag: (read) =>
      metrics.gaugeFrom("agents_inbox_lag", "Inputs stored and not done yet, all shards", read),
    shardsWithoutHost: (read) =>
      metrics.gaugeFrom(
        "agents_shards_without_host",
        "Shards that no host owns: their webhooks are stored and their callers wait",
        read,
      ),
    deliveryRecordsDropped: (read) =>
      metrics.gaugeFrom(
        "agents_delivery_records_dropped",
        "Records of the delivery log that could not be stored, since the process started",
        read,
      ),
    durable: (read) =>
      metrics.gaugeFrom(
        "agents_broker_durable",
        "1: the broker is known to write to disk before it acknowledges; 0: it does not, or does not say",
        read,
      ),
    roundTrip: (read) =>
      metrics.gaugeFrom(
        "agents_broker_round_trip_seconds",
        "A ping to the broker and its answer, measured for this look",
        read,
      ),
    webhooks: (provider, status, seconds) => {
      webhooks(provider, String(status))();
      webhookSeconds(seconds);
    },
  };
}

/**
 * Names of budgets are the author's: a class that makes them of its users must not fill the
 * registry.
 */
const NAMES_MAX = 100;

/** The name itself of the first so many, `other` of the rest. */
function boundedNames(): (name: string) => string {
  const names = new Set<string>();
  return (name) => {
    if (names.size < NAMES_MAX) names.add(name);
    return names.has(name) ? name : "other";
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
