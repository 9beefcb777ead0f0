/**
 * How the steps of an instance are undone once `run` has failed for good: what `step.do` says of
 * each in this run, and what is recorded of it. `Execution` runs the undos as steps (`undoSteps`).
 *
 * Records of undoing lie among those of the steps: `undoing` has the failure, `undo 1:charge` the
 * end of one undo. `StepOrder` does not know them, because the order of undos is that of the steps,
 * and what is left to undo is undone whatever the code asks for by now.
 */
import { UNDOING } from "../journal/AgentImage.ts";
import { undoKey } from "../step/undoSteps.ts";
import type { StoredError } from "./errors.ts";
import type { StepRecord } from "./RunTable.ts";
import type { ResolvedConfig } from "./stepConfig.ts";
import { newStep } from "./stepFacts.ts";
import type { InstanceStatus } from "./WorkflowCalls.ts";
import type { StepContext, WorkflowRollbackContext } from "./WorkflowStep.ts";

/** How one step is undone. */
export interface ResolvedUndo {
  readonly config: ResolvedConfig;
  /** It runs for a step that is not done, too, which has no output. */
  readonly isForAll: boolean;
  readonly run: (of: Omit<WorkflowRollbackContext, "key">, ctx: StepContext) => unknown;
}

export interface Undo {
  readonly record: StepRecord;
  readonly undo: ResolvedUndo;
}

/** `eventType` of the record of a termination that undoes steps. */
const TERMINATED = "terminated";

export class Undos {
  /** Why `run` has failed for good, once it is being undone. */
  failure: StoredError | undefined;
  private readonly records: ReadonlyMap<string, StepRecord>;
  private readonly known: Undo[] = [];

  constructor(records: ReadonlyArray<StepRecord>) {
    this.records = new Map(
      records.filter(({ kind }) => kind === "undo").map((record) => [record.key, record]),
    );
    const result = this.records.get(UNDOING)?.result;
    this.failure = result == null ? undefined : (JSON.parse(result) as StoredError);
  }

  /** The record that makes the steps of an instance be undone, which then ends as terminated. */
  static terminated(): StepRecord {
    const result: StoredError = { name: "Error", message: "the workflow was terminated" };
    const ended = { endedAt: 0, eventType: TERMINATED, result: JSON.stringify(result) };
    return { ...newStep(UNDOING, "undo"), ...ended };
  }

  get isTerminated(): boolean {
    return this.records.get(UNDOING)?.eventType === TERMINATED;
  }

  get isEmpty(): boolean {
    return this.known.length === 0;
  }

  add(record: StepRecord, undo: ResolvedUndo): void {
    this.known.push({ record, undo });
  }

  /** In the order in which their steps began first. */
  due(): ReadonlyArray<Undo> {
    return this.known
      .filter(({ record, undo }) => isDone(record) || (undo.isForAll && record.attempts > 0))
      .toSorted((a, b) => a.record.position - b.record.position);
  }

  /** Of these steps: keys of those that are done, and whose undo has not ended. */
  left(steps: ReadonlyArray<StepRecord>): ReadonlyArray<string> {
    const isLeft = (step: StepRecord): boolean =>
      step.kind === "do" && isDone(step) && this.recordOf(undoKey(step.key))?.endedAt == null;
    return steps.filter(isLeft).map(({ key }) => key);
  }

  /** How they ended; undefined if nothing was undone. */
  outcome(): InstanceStatus["rollback"] {
    const ends = [...this.records.values()].filter(({ key }) => key !== UNDOING);
    if (ends.length === 0) return undefined;
    const failed = ends.find((each) => each.error !== null || each.endedAt === null);
    const outcome = failed === undefined ? "complete" : "failed";
    return { outcome, error: failed?.error ?? null };
  }

  /** What is recorded under that key of undoing. */
  recordOf(key: string): StepRecord | undefined {
    return this.records.get(key);
  }
}

const isDone = ({ endedAt, error }: StepRecord): boolean => endedAt !== null && error === null;
