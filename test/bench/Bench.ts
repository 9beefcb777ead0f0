/** The interface of a bench and its result: rows of numbers, with those to compare them with. */

/** From the command line; each bench says in `about` which it heeds. */
export interface BenchOptions {
  /** Interleaved repeats; medians are taken over them. */
  readonly rounds: number;
  /** The length of one measurement. */
  readonly seconds: number;
  /** The broker fsyncs each message before its ack. */
  readonly syncAlways: boolean;
  /** Streams each of inbox, journal and snapshots. */
  readonly streamGroups: number;
  /** Undefined: the bench's own number. */
  readonly agents: number | undefined;
  /** Which of a bench's forms run; empty: all. */
  readonly forms: ReadonlyArray<string>;
  /** Folder for CPU profiles of our processes; measured so, numbers are lower. */
  readonly profile: string | undefined;
  /** Progress, for people. */
  readonly say: (line: string) => void;
}

/** One line of the table: the same columns in every row of a result. */
export interface BenchRow {
  readonly name: string;
  readonly values: Readonly<Record<string, number | undefined>>;
}

export interface BenchResult {
  /** What was measured, under which durability, against what. */
  readonly title: string;
  readonly server: string;
  readonly durability: string;
  readonly rows: ReadonlyArray<BenchRow>;
  /** Every single measurement, for the JSON. */
  readonly raw: unknown;
  /** What the reader has to know to interpret the numbers. */
  readonly notes: ReadonlyArray<string>;
}

export interface Bench {
  readonly name: string;
  readonly about: string;
  readonly run: (options: BenchOptions) => Promise<BenchResult>;
}

/** A reason for a person: something is missing on the machine, or a result was wrong. */
export class BenchFailed extends Error {
  override readonly name = "BenchFailed";
}
