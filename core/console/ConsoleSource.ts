/**
 * What the console shows and does, as JSON values. The command line provides it, over the broker's
 * ports; `services/console` serves it.
 */

export interface PointOf {
  readonly className: string;
  readonly name: string;
  /** A journal sequence or a time, as `--at` takes it; undefined: now. */
  readonly at: string | undefined;
}

/** What is asked for is wrong or not there; the message is for who asked. */
export class ConsoleRefusal extends Error {
  override readonly name = "ConsoleRefusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Each rejects with `ConsoleRefusal`, or with what the broker failed with. */
export interface ConsoleSource {
  /** Agents of a class or of all whose names begin so, `limit` at most. */
  readonly list: (wanted: {
    readonly className: string | undefined;
    readonly prefix: string;
    readonly limit: number;
  }) => Promise<unknown>;
  /** The last `limit` turns, oldest first. */
  readonly history: (wanted: Omit<PointOf, "at"> & { readonly limit: number }) => Promise<unknown>;
  readonly state: (wanted: PointOf) => Promise<unknown>;
  readonly schedules: (wanted: PointOf) => Promise<unknown>;
  /** Rows of a statement that reads. */
  readonly sql: (wanted: PointOf & { readonly query: string }) => Promise<unknown>;
  readonly dead: () => Promise<unknown>;
  readonly redrive: (id: number) => Promise<unknown>;
  readonly drop: (id: number) => Promise<unknown>;
  /** Agents that are set aside, as `agents list --quarantined --json` has them. */
  readonly quarantined: () => Promise<unknown>;
  readonly release: (agent: Omit<PointOf, "at">) => Promise<unknown>;
  /** Each process that holds shards, with their number. */
  readonly hosts: () => Promise<unknown>;
}
