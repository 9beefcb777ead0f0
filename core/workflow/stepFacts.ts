/**
 * The facts of one step for `Execution`: its initial record, its name, its cause for the journal,
 * and its result. Pure.
 */
import { headerKey, nameOfStep } from "../step/stepKey.ts";
import { resultText } from "../step/stepResult.ts";
import { undoKey } from "../step/undoSteps.ts";
import { reviveError, type StoredError } from "./errors.ts";
import type { StepKind, StepRecord } from "./RunTable.ts";
import type { StepContext } from "./WorkflowStep.ts";

/**
 * A few deployments may interrupt a long step; a step that kills its host soon reaches this number.
 */
export const CRASHES_MAX = 20;
/** How a step ends. */
export interface Outcome {
  readonly result?: string | null;
  readonly error?: StoredError;
}

export const nameOf = ({ key, kind }: StepRecord): string =>
  kind === "undo" ? undoKey(nameOfStep(key)) : nameOfStep(key);
/** Its name, and the number of the call with that name, from 1. An undo has those of its step. */
const stepOf = ({ key }: StepRecord) => ({
  name: nameOfStep(key),
  count: Number(/\d+/.exec(key)![0]),
});

export const causeOf = (record: StepRecord, attempt = 1) =>
  ({
    kind: "workflow",
    id: record.key,
    type: record.kind,
    ...(attempt === 1 ? {} : { attempt }),
  }) as const;

/** What the function of an attempt receives. `keys` starts the idempotency keys of its run. */
export const contextOf = (keys: string, record: StepRecord, attempt: number): StepContext => ({
  key: headerKey(`${keys}:${record.key}`),
  attempt,
  step: stepOf(record),
});

/** Null for `undefined`. Throws an error that names the step. */
export const toResult = (record: StepRecord, value: unknown): string | null =>
  resultText(`the result of step "${nameOf(record)}"`, value) ?? null;

/** Its result; undefined if it has none or has not ended. */
export const resultOf = ({ result }: StepRecord): unknown =>
  result === null ? undefined : (JSON.parse(result) as unknown);

/** Settles a promise as the record says. */
export const giverOf =
  (resolve: (value: unknown) => void, reject: (error: Error) => void) =>
  (record: StepRecord): void => {
    if (record.error !== null) reject(reviveError(record.error));
    else resolve(resultOf(record));
  };

/** The record of a step before it begins. */
export const newStep = (key: string, kind: StepKind): StepRecord => ({
  key, kind, position: 0, after: 0, endedAt: null, attempts: 0, failures: 0, dueMs: null,
  eventType: null, result: null, error: null,
}); // prettier-ignore

/**
 * Throws if too many hosts died in `run`, judging by how often it was begun. A death within a step
 * counts for that step.
 */
export function checkDeaths(steps: ReadonlyArray<StepRecord>, begun: number): void {
  const inSteps = steps.reduce((sum, { attempts }) => sum + attempts, 0);
  const times = begun - 1 - inSteps;
  if (times >= CRASHES_MAX)
    throw new Error(
      `run was interrupted ${times} times outside of its steps: its host was lost each time`,
    );
}

export const crashedOut = (record: StepRecord): StoredError => ({
  name: "Error",
  message: `step "${nameOf(record)}" was interrupted ${record.attempts - record.failures} times: its host was lost each time`,
});
