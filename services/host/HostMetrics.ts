/** What a host counts. Plain calls on the hot path; `services/admin` turns them into Prometheus text. */
export interface HostMetrics {
  readonly turns: () => void;
  readonly commits: (bytes: number) => void;
  readonly refusedAppends: () => void;
  readonly activations: (events: number) => void;
  readonly hibernations: () => void;
  readonly snapshots: () => void;
  readonly deadLetters: () => void;
  readonly quarantines: () => void;
}

/** Counts nothing. */
export const NO_METRICS: HostMetrics = {
  turns: () => undefined,
  commits: () => undefined,
  refusedAppends: () => undefined,
  activations: () => undefined,
  hibernations: () => undefined,
  snapshots: () => undefined,
  deadLetters: () => undefined,
  quarantines: () => undefined,
};
