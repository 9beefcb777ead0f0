/**
 * Observability events of an agent (`protocol.md` §10): small, synchronous, best effort.
 * `services/observability` publishes them to Node's diagnostics channels, which is the default.
 */
export interface ObservabilityEvent {
  /** e.g. `schedule:execute`; the part before the colon names the channel. */
  readonly type: string;
  /** Class of the agent. */
  readonly agent: string;
  readonly name: string;
  readonly payload: Readonly<Record<string, unknown>>;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
}

export interface Observability {
  readonly emit: (event: ObservabilityEvent) => void;
}

/** Drops all events. */
export const SILENT: Observability = { emit: () => undefined };

/** Events whose type begins with the name of none go to `lifecycle`. */
export const CHANNELS = [
  "state", "rpc", "schedule", "lifecycle", "workflow", "email", "mcp", "webhook", "fiber",
] as const; // prettier-ignore

/** The channel of an event type; queue events are of the schedule channel (`protocol.md` §10). */
export function channelOf(type: string): (typeof CHANNELS)[number] {
  const prefix = type.split(":", 1)[0]!;
  if (prefix === "queue") return "schedule";
  return CHANNELS.find((name) => name === prefix) ?? "lifecycle";
}
