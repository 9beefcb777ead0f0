/** What a part of `npm run membership` is, and its result: figures, and rules that held or not. */

export interface PartOptions {
  readonly repeats: number;
  /** Progress, for people. */
  readonly say: (line: string) => void;
}

export interface Rule {
  readonly rule: string;
  readonly holds: boolean;
  /** It is about a time: no test of the suite looks at it. */
  readonly timed?: boolean;
  /** What was seen, as evidence either way. */
  readonly saw: string;
}

export interface PartResult {
  readonly title: string;
  readonly rows: ReadonlyArray<{
    readonly name: string;
    readonly values: Readonly<Record<string, number | undefined>>;
  }>;
  readonly rules: ReadonlyArray<Rule>;
  /** Every single measurement, for the JSON. */
  readonly raw: unknown;
  readonly notes: ReadonlyArray<string>;
}

export interface Part {
  readonly name: string;
  readonly about: string;
  readonly run: (options: PartOptions) => Promise<PartResult>;
}
