/**
 * What `Execution` says of one step: its name, its cause for the journal, and its result. Pure.
 */
import { nameOfStep } from "../step/stepKey.ts";
import { resultText } from "../step/stepResult.ts";
import type { StoredError } from "./errors.ts";
import type { StepRecord } from "./RunTable.ts";

export const nameOf = ({ key }: StepRecord): string => nameOfStep(key);
/** Its name, and which call of that name it is, from 1. */
export const stepOf = ({ key }: StepRecord) => ({
  name: nameOfStep(key),
  count: Number(key.slice(0, key.indexOf(":"))),
});

export const causeOf = (record: StepRecord, attempt = 1) =>
  ({
    kind: "workflow",
    id: record.key,
    type: record.kind,
    ...(attempt === 1 ? {} : { attempt }),
  }) as const;

/** Null for `undefined`. Throws an error that names the step. */
export const toResult = (record: StepRecord, value: unknown): string | null =>
  resultText(`the result of step "${nameOf(record)}"`, value) ?? null;

export const crashedOut = (record: StepRecord): StoredError => ({
  name: "Error",
  message: `step "${nameOf(record)}" did not end ${record.attempts - record.failures} times: its host was gone each time`,
});
