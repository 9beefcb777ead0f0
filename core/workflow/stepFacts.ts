/**
 * What `Execution` says and asks of one step: its name, its cause for the journal, its result as
 * JSON, and which of its errors are final. Pure.
 */
import type { StoredError } from "./errors.ts";
import type { StepKind, StepRecord } from "./RunTable.ts";

/** A name is part of every key; the reference's platform has the same limit. */
const NAME_CHARS_MAX = 256;

export const nameOf = ({ key }: StepRecord): string => key.slice(key.indexOf(":") + 1);

export const causeOf = (record: StepRecord, attempt = 1) =>
  ({
    kind: "workflow",
    id: record.key,
    type: record.kind,
    ...(attempt === 1 ? {} : { attempt }),
  }) as const;

export function checkName(kind: StepKind, name: unknown): asserts name is string {
  if (typeof name === "string" && name !== "" && name.length <= NAME_CHARS_MAX) return;
  throw new TypeError(
    `step.${kind}: the name of a step is text of 1 to ${NAME_CHARS_MAX} characters`,
  );
}

/**
 * JSON text; null for `undefined`. Throws an error that names the step; trying again would not
 * help.
 */
export function toResult(record: StepRecord, value: unknown): string | null {
  if (value === undefined) return null;
  let why = `a ${typeof value}`;
  try {
    const text = JSON.stringify(value) as string | undefined;
    if (text !== undefined) return text;
  } catch (error) {
    why = error instanceof Error ? error.message : String(error);
  }
  throw new NotJson(`the result of step "${nameOf(record)}" must be JSON; it is not: ${why}`);
}

class NotJson extends TypeError {}

export const isFinal = (error: unknown): boolean =>
  error instanceof NotJson || (error instanceof Error && isNonRetryable(error));

/** By name along the prototypes, since a user's module may have a class of that name of its own. */
export function isNonRetryable(error: Error): boolean {
  for (let at: object | null = error; at !== null; at = Object.getPrototypeOf(at) as object | null)
    if ((at.constructor as { readonly name?: string } | undefined)?.name === "NonRetryableError")
      return true;
  return false;
}

export const crashedOut = (record: StepRecord): StoredError => ({
  name: "Error",
  message: `step "${nameOf(record)}" did not end ${record.attempts - record.failures} times: its host was gone each time`,
});
