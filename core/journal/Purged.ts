/** What an erasure has removed of an agent at the broker: how many of each. */
export interface Purged {
  readonly events: number;
  readonly inputs: number;
  readonly timers: number;
  readonly snapshots: number;
  readonly deadLetters: number;
  readonly blobs: number;
  /** False: the broker's files contain bytes of inputs that were done, until it rewrites them. */
  readonly doneInputsGone: boolean;
}
