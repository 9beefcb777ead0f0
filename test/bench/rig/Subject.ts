/** Something that answers signed webhooks and is measured: the floor, or a form of ours. */
export interface Subject {
  readonly name: string;
  /** URL of its broker. */
  readonly broker: string;
  /** Where deliveries go. */
  readonly url: string;
  /**
   * As `webhooks.lua` takes it: a path that the agent's name is appended to, or one that names
   * none.
   */
  readonly target:
    | { readonly PATH_PREFIX: string; readonly PATH_SUFFIX?: string }
    | { readonly PATH_FIXED: string };
  /** Processor time so far: its Node processes, and its broker. */
  readonly cpuSeconds: () => { readonly node: number; readonly broker: number };
  /** Answers so far by status, as it counts them itself; undefined when it does not. */
  readonly answers: () => Promise<ReadonlyMap<number, number> | undefined>;
  readonly stop: () => Promise<void>;
}
