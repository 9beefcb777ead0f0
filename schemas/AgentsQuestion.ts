/**
 * A question over all agents and its answer, as they pass from a module's code or a command to the
 * host that answers (`Call`, kind `query`) and to its thread. `core/query/Queries` says what they
 * mean.
 */

export interface AgentsQuestion {
  /**
   * The class of the binding that was asked: it has a table, though it may have no agents. Absent:
   * a command asks. Older hosts fail without it.
   */
  readonly className?: string;
  /** One statement that reads. */
  readonly sql: string;
  /** Bound to its parameters, in order. */
  readonly values: ReadonlyArray<string | number | boolean | null>;
  /** The longest that the statement may run. */
  readonly seconds: number;
  /** Rows of the answer, at most. Absent, and for older hosts: 10,000. */
  readonly rowsMax?: number;
}

/** Blobs are base64, integers past 2^53 strings. */
export interface AgentsAnswer {
  readonly columns: ReadonlyArray<string>;
  readonly rows: ReadonlyArray<ReadonlyArray<string | number | null>>;
  /** For each stream group: everything up to this sequence is in it. Absent from older hosts. */
  readonly seqs?: ReadonlyArray<number>;
}
