/** A measured system that answers signed webhooks: the floor, or one of our deployments. */
export interface Subject {
  readonly name: string;
  /** URL of its broker. */
  readonly broker: string;
  /** The URL of deliveries. */
  readonly url: string;
  /** As in `webhooks.lua`: a path to which the agent's name is appended, or one without a name. */
  readonly target:
    | { readonly PATH_PREFIX: string; readonly PATH_SUFFIX?: string }
    | { readonly PATH_FIXED: string };
  /** Processor time so far: its Node processes, and its broker. */
  readonly cpuSeconds: () => { readonly node: number; readonly broker: number };
  /** Answers so far by status, as it counts them itself; undefined when it does not. */
  readonly answers: () => Promise<ReadonlyMap<number, number> | undefined>;
  readonly stop: () => Promise<void>;
}
