/**
 * The order of an instance's steps: recorded in the first run, enforced in each replay. Pure; used
 * by `Execution`.
 *
 * A replay returns the recorded results to `run` in the order of the first run. The same code then
 * begins the same steps, parallel ones included, so a difference from the record is a change of the
 * code.
 *
 * 1. A stored result is returned in the recorded order, after every step has begun that had begun
 *    before it in the first run. (`StepRecord.after` is the number of results that `run` had
 *    received when the step began.)
 * 2. The code has changed if, before all recorded steps have begun again, a step begins that is not
 *    in the record, has another kind, or begins too early; or if `run` ends.
 */
import { nameOfStep } from "../step/stepKey.ts";
import { StepCounts } from "../turn/StepCounts.ts";
import { WorkflowCodeChanged } from "./errors.ts";
import type { StepKind, StepRecord } from "./RunTable.ts";

export class StepOrder {
  /**
   * Recorded steps that are not called again yet, in recorded order, so `after` never decreases.
   */
  private readonly unasked: Map<string, StepRecord>;
  /** Keys of ended steps, in the order of their results. */
  private readonly ended: string[];
  private readonly recorded: number;
  private readonly ready = new Map<string, () => void>();
  private readonly calls = new StepCounts();
  private loose = false;
  /** The number of results that `run` has received. */
  given = 0;

  constructor(records: ReadonlyArray<StepRecord>) {
    const byBegin = records.toSorted((a, b) => a.position - b.position);
    this.unasked = new Map(byBegin.map((record) => [record.key, record]));
    this.ended = records
      .filter((record) => record.endedAt !== null)
      .toSorted((a, b) => a.endedAt! - b.endedAt!)
      .map((record) => record.key);
    this.recorded = this.ended.length;
  }

  /** Further recorded steps follow: the code repeats what it did before. */
  get replaying(): boolean {
    return this.given < this.recorded || this.unasked.size > 0;
  }

  /** Recorded steps that the code has not called. */
  get left(): ReadonlyArray<StepRecord> {
    return [...this.unasked.values()];
  }

  /** A recorded step that results wait for until the code calls it. */
  get missing(): StepRecord | undefined {
    return this.ready.size > 0 ? this.next() : undefined;
  }

  /** The key of the next step of that name: `1:charge`, `2:charge`. */
  keyOf(name: string): string {
    return this.calls.next(name);
  }

  /** The step's record; undefined for a new step. Throws `WorkflowCodeChanged` (rule 2). */
  ask(key: string, kind: StepKind): StepRecord | undefined {
    const record = this.unasked.get(key);
    if (this.loose) {
      this.unasked.delete(key);
      return record?.kind === kind ? record : undefined;
    }
    const next = this.next();
    if (record === undefined) {
      if (next === undefined) return undefined;
      throw changed(next, `but the code now calls ${describe(key, kind)}`);
    }
    if (record.kind !== kind) throw changed(record, `but it is now ${describe(key, kind)}`);
    if (record.after > this.given)
      throw changed(next!, `but the code now calls ${describe(key, kind)} first`);
    this.unasked.delete(key);
    return record;
  }

  /** `run` has ended. Throws `WorkflowCodeChanged` (rule 2). */
  end(): void {
    const next = this.next();
    if (next !== undefined) throw changed(next, "but the code now ends without it");
  }

  /** A step has ended, and its end is being stored. Returns its place in the order, from 1. */
  addEnded(key: string): number {
    return this.ended.push(key);
  }

  /** Its result is stored: `give` is called when its turn comes (rule 1). */
  addReady(key: string, give: () => void): void {
    if (this.loose) return give();
    this.ready.set(key, give);
    this.giveReady();
  }

  /** From now on a result is returned as soon as its step is called, in any order. */
  loosen(): void {
    this.loose = true;
    for (const give of this.ready.values()) give();
    this.ready.clear();
  }

  /** After an `ask`: returns the results that waited for it. */
  giveReady(): void {
    for (;;) {
      const key = this.ended[this.given];
      const give = key === undefined ? undefined : this.ready.get(key);
      if (give === undefined) return;
      const next = this.next();
      if (next !== undefined && next.after <= this.given) return;
      this.ready.delete(key!);
      this.given++;
      give();
    }
  }

  private next(): StepRecord | undefined {
    return this.unasked.values().next().value;
  }
}

const changed = (record: StepRecord, now: string): WorkflowCodeChanged =>
  new WorkflowCodeChanged(
    `The workflow's code changed while an instance was running: the instance recorded ${describe(record.key, record.kind)}, ${now}. Restart the instance, or deploy the old code until it has ended`,
  );

/** A step for which results wait, and which the code does not call (`ReplayWatch`). */
export const notCalled = (record: StepRecord): WorkflowCodeChanged =>
  changed(record, "but the code now waits for other steps and does not call it");

/** `step.do "charge"`, `step.do "charge" (call 2)`. */
function describe(key: string, kind: StepKind): string {
  const nth = key.slice(0, key.indexOf(":"));
  const name = JSON.stringify(nameOfStep(key));
  return `step.${kind} ${name}${nth === "1" ? "" : ` (call ${nth})`}`;
}
