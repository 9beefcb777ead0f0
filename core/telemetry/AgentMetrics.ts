/**
 * The metrics that this system has, by name: one place for names, units and help texts, so that a
 * dashboard built on them stays right. Made once per process from the `Metrics` port; hosts and
 * gateways bump the fields. Units are last in a name, seconds and bytes, as Prometheus has it.
 */
import type { WebhookRoute } from "../webhook/WebhookRoute.ts";
import type { MetricsShape } from "./Metrics.ts";
import type { BudgetSum, ClassMetrics } from "./Usage.ts";

/** Seconds: from one group commit on a fast disk to the longest webhook deadline (9.5 s). */
const LATENCY_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const MS_PER_SECOND = 1000;

/** Metrics of one class's agents at a host, all with the label `class`. */
export interface HostedClassMetrics extends ClassMetrics {
  /** An append was refused by the journal's compare-and-set: a stale owner was fenced off. */
  readonly refusedAppend: () => void;
  /** An agent was activated by replaying that many events. */
  readonly activation: (events: number) => void;
  readonly hibernation: () => void;
  readonly snapshot: () => void;
  readonly deadLetter: () => void;
  readonly quarantine: () => void;
  /** A durable input was dropped because the agent had already done it. */
  readonly duplicate: () => void;
  /** A webhook of one entity was refused by another's agent: `slug` gives both the same name. */
  readonly entityConflict: () => void;
  /** A turn did not end in time and was given up. */
  readonly turnGivenUp: () => void;
  /** A webhook was answered 429, because too many inputs of its agent wait. */
  readonly refusedInput: () => void;
}

/**
 * The labels of a webhook request's metrics: `route` is the declared path, and `class` is the
 * first target's of a route with several.
 */
type MeasuredRoute = Pick<WebhookRoute, "path" | "agent"> & {
  readonly verifier: Pick<WebhookRoute["verifier"], "provider">;
};

export interface AgentMetrics {
  /** An unhandled error; `of`: the agent's class, undefined if it came from no agent. */
  readonly unhandledErrors: (of: string | undefined) => void;
  /** So much of a budget was spent by an agent of this class. */
  readonly budgetSpent: (agentClass: string, budget: string, amount: number) => void;
  /** `spend` refused, since the budget was used up. */
  readonly budgetRefused: (agentClass: string, budget: string) => void;
  /** The sums of both since the process started. */
  readonly budgets: () => ReadonlyArray<BudgetSum>;
  /** Creates its series at 0, so that an alert sees the first count of each. */
  readonly ofClass: (name: string) => HostedClassMetrics;
  /** These are read when metrics are collected. */
  readonly active: (agents: () => number) => void;
  /** How many agents of the host's shards are quarantined. */
  readonly quarantined: (agents: () => number) => void;
  /** The memory that a host uses: 1 is all that it may take. */
  readonly memoryInUse: (share: () => number) => void;
  readonly connections: (sockets: () => number) => void;
  readonly inboxLag: (inputs: () => number | Promise<number>) => void;
  /** The hosts' leases, as a gateway or a host knows them. */
  readonly shardsWithoutHost: (shards: () => number) => void;
  /** For how long something has waited to be stored by the broker; 0: nothing waits. */
  readonly unstored: (seconds: () => number) => void;
  /** Delivery records that this process could not store. */
  readonly deliveryRecordsDropped: (records: () => number) => void;
  /** 1 while the broker is known to write to disk before it acknowledges, 0 otherwise. */
  readonly durable: (isDurable: () => number) => void;
  /** The broker's response time in seconds; measured when metrics are collected. */
  readonly roundTrip: (seconds: () => Promise<number>) => void;
  /** A webhook request was answered, `seconds` after its head was in. */
  readonly webhooks: (route: MeasuredRoute, status: number, seconds: number) => void;
}

export function agentMetrics(metrics: MetricsShape): AgentMetrics {
  const webhooks = new WeakMap<MeasuredRoute, (status: number, seconds: number) => void>();
  const unhandled = byLabels((agentClass) =>
    metrics.counter(
      "agents_unhandled_errors_total",
      "Errors that no code handled; the class is empty where no agent's code ran",
      { class: agentClass },
    ),
  );
  const budgetNames = boundedNames();
  const budgetSums: Array<{ -readonly [Field in keyof BudgetSum]: BudgetSum[Field] }> = [];
  const budgets = byLabels((agentClass, budget) => {
    const labels = { class: agentClass, budget };
    const spent = metrics.counter("agents_budget_spent_total", "What agents spent of their budgets", labels); // prettier-ignore
    const refused = metrics.counter("agents_budget_refused_total", "Calls refused by a budget that was used up", labels); // prettier-ignore
    const sum = { ...labels, spent: 0, refused: 0 };
    budgetSums.push(sum);
    return { spent, refused, sum };
  });
  const classNames = boundedNames();
  const classes = new Map<string, HostedClassMetrics>();
  const gauge = gaugesOf(metrics);
  return {
    unhandledErrors: (of = "") => unhandled(of, "")(),
    ofClass: (name) => {
      const label = classNames(name);
      let made = classes.get(label);
      if (made === undefined) classes.set(label, (made = hostedClass(metrics, label)));
      return made;
    },
    budgetSpent: (agentClass, budget, amount) => {
      const { spent, sum } = budgets(agentClass, budgetNames(budget));
      sum.spent += amount;
      spent(amount);
    },
    budgetRefused: (agentClass, budget) => {
      const { refused, sum } = budgets(agentClass, budgetNames(budget));
      sum.refused++;
      refused();
    },
    budgets: () => budgetSums,
    active: gauge("agents_active", "Agents in memory"),
    quarantined: gauge("agents_quarantined", "Agents that are quarantined now"),
    memoryInUse: gauge(
      "agents_memory_in_use",
      "Share of a host's memory that is in use; from 0.75 on idle agents leave sooner",
    ),
    connections: gauge("agents_connections", "Open WebSocket connections"),
    inboxLag: gauge("agents_inbox_lag", "Inputs stored and not done yet, all shards"),
    shardsWithoutHost: gauge(
      "agents_shards_without_host",
      "Shards that no host owns: their webhooks are stored and their callers wait",
    ),
    unstored: gauge(
      "agents_unstored_seconds",
      "For how long the broker has not stored an event or this process's lease; 0: nothing waits",
    ),
    deliveryRecordsDropped: gauge(
      "agents_delivery_records_dropped",
      "Records of the delivery log that could not be stored, since the process started",
    ),
    durable: gauge(
      "agents_broker_durable",
      "1: the broker is known to write to disk before it acknowledges; 0: it does not, or does not say",
    ),
    roundTrip: gauge(
      "agents_broker_round_trip_seconds",
      "A ping to the broker and its answer, measured for this look",
    ),
    webhooks: (route, status, seconds) => {
      let made = webhooks.get(route);
      if (made === undefined) webhooks.set(route, (made = webhooksOf(metrics, route)));
      made(status, seconds);
    },
  };
}

/** The function with which a gauge receives what reads it. */
export const gaugesOf =
  (metrics: Pick<MetricsShape, "gaugeFrom">) =>
  (name: string, help: string) =>
  (read: Parameters<MetricsShape["gaugeFrom"]>[2]): void =>
    metrics.gaugeFrom(name, help, read);

function hostedClass(metrics: MetricsShape, name: string): HostedClassMetrics {
  const count = (what: string, help: string) =>
    metrics.counter(`agents_${what}_total`, help, { class: name });
  const turns = count("turns", "Turns that ended");
  const turnSeconds = count("turn_seconds", "Seconds in turns, waits included");
  const commits = count("commits", "Journal events stored");
  const commitBytes = count("commit_bytes", "Bytes of journal events stored");
  const stalls = count("stalls", "Times that a turn held the thread of its process for 0.2 s or more"); // prettier-ignore
  const stallSeconds = count("stall_seconds", "Seconds of these");
  const activations = count("activations", "Agents brought into memory");
  const replayed = count("replayed_events", "Journal events replayed to bring agents into memory");
  return {
    turn: (ms) => {
      turns();
      turnSeconds(ms / MS_PER_SECOND);
    },
    commit: (bytes) => {
      commits();
      commitBytes(bytes);
    },
    stall: (ms) => {
      stalls();
      stallSeconds(ms / MS_PER_SECOND);
    },
    activation: (events) => {
      activations();
      replayed(events);
    },
    refusedAppend: count(
      "refused_appends",
      "Journal appends refused because another host had written",
    ),
    hibernation: count("hibernations", "Agents that left memory when idle"),
    snapshot: count("snapshots", "Snapshots stored"),
    deadLetter: count("dead_letters", "Inputs that exhausted their attempts"),
    quarantine: count("quarantines", "Agents quarantined"),
    duplicate: count("duplicate_inputs", "Inputs dropped because they had been done before"),
    entityConflict: count(
      "entity_conflicts",
      "Webhooks refused because slug gives their entity the name of another entity's agent",
    ),
    turnGivenUp: count("turns_given_up", "Turns that did not end within turnSeconds"),
    refusedInput: count(
      "refused_inputs",
      "Webhooks answered 429 because too many inputs of their agent wait (waitingMax)",
    ),
  };
}

function webhooksOf(metrics: MetricsShape, { agent, path, verifier }: MeasuredRoute) {
  const given = { class: agent, route: path, provider: verifier.provider };
  const answered = byLabels((status) =>
    metrics.counter("agents_webhooks_total", "Webhook requests answered", { ...given, status }),
  );
  const spread = metrics.histogram(
    "agents_webhook_seconds",
    "From a webhook request's head to its answer",
    LATENCY_BOUNDS,
    given,
  );
  return (status: number, seconds: number): void => {
    answered(String(status), "")();
    spread(seconds);
  };
}

/**
 * Names of budgets and of sub-agents' classes come from the code. Code that derives them from users
 * must not fill the registry.
 */
const NAMES_MAX = 100;

/** The names of the first ones, `other` for the rest. */
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
