/**
 * How the steps of an instance are undone once `run` has finally failed: the undo that `step.do`
 * passed for each, and its record. `Execution` runs the undos as steps (`undoSteps`).
 *
 * Records of undos are stored among those of the steps: `undoing` has the failure, `undo 1:charge`
 * the end of one undo. `StepOrder` ignores them: undos follow the order of the steps, and remaining
 * undos run whatever steps the code calls now.
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
  /** Also runs for a step that is not done, without an output. */
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
  /** The error of `run`, once its steps are being undone. */
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

  /** The record that starts the undo of an instance, which then ends as terminated. */
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

  /** The keys of the given steps that are done and whose undo has not ended. */
  left(steps: ReadonlyArray<StepRecord>): ReadonlyArray<string> {
    const isLeft = (step: StepRecord): boolean =>
      step.kind === "do" && isDone(step) && this.recordOf(undoKey(step.key))?.endedAt == null;
    return steps.filter(isLeft).map(({ key }) => key);
  }

  /** The outcome of the undos; undefined if nothing was undone. */
  outcome(): InstanceStatus["rollback"] {
    const ends = [...this.records.values()].filter(({ key }) => key !== UNDOING);
    if (ends.length === 0) return undefined;
    const failed = ends.find((each) => each.error !== null || each.endedAt === null);
    const outcome = failed === undefined ? "complete" : "failed";
    return { outcome, error: failed?.error ?? null };
  }

  /** The record under an undo's key. */
  recordOf(key: string): StepRecord | undefined {
    return this.records.get(key);
  }
}

const isDone = ({ endedAt, error }: StepRecord): boolean => endedAt !== null && error === null;
