/** Checks questions and answers: sizes, and texts that people can read. Pure. */
import { checkOptions } from "../errors/checkOptions.ts";
import { toJson } from "../journal/jsonText.ts";
import { STEP_NAME_CHARS_MAX } from "../step/stepKey.ts";
import type { ApprovalQuestion } from "./Approval.ts";

const QUESTION: ReadonlySet<string> = new Set<keyof ApprovalQuestion>([
  "prompt", "timeout", "notify",
]); // prettier-ignore
/** It is in the agent's history and on a page. */
const BY_CHARS_MAX = 256;
/** A page of text. */
const PROMPT_CHARS_MAX = 4_000;
export const REASON_CHARS_MAX = 2_000; // half of a prompt: it explains a yes or a no
const METADATA_CHARS_MAX = 64 * 1024; // an answer, and no document
/** A line break in a name would make a second line of a log or of a history. */
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f]/;

/** A checked decision; `by` is null where an event of a workflow did not say. */
export interface Answer {
  readonly approved: boolean;
  readonly by: string | null;
  readonly reason?: string | undefined;
  readonly metadata?: unknown;
}

/** A decision that need not say who decides. */
export interface GivenAnswer {
  readonly approved: boolean;
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
  readonly metadata?: unknown;
}

/** Throws `TypeError` or `RangeError`. */
export function checkAnswer(decision: GivenAnswer): Answer {
  const { approved, by, reason, metadata } = decision;
  if (typeof approved !== "boolean")
    throw new TypeError(
      "a decision says what is decided: { approved: true } or { approved: false }",
    );
  if (by !== undefined) checkBy(by);
  if (reason !== undefined && (typeof reason !== "string" || reason.length > REASON_CHARS_MAX))
    throw new RangeError(
      `the reason of a decision is text of at most ${REASON_CHARS_MAX} characters`,
    );
  const text = toJson(metadata, "the metadata of a decision");
  if ((text?.length ?? 0) > METADATA_CHARS_MAX)
    throw new RangeError(`the metadata of a decision has at most ${METADATA_CHARS_MAX} characters`);
  return { approved, by: by ?? null, reason, metadata };
}

/** Throws `TypeError`: who decides is one line of text. `what`: the option that says it. */
export function checkBy(by: string, what = "by"): void {
  if (typeof by === "string" && by !== "" && by.length <= BY_CHARS_MAX && !CONTROL.test(by)) return;
  throw new TypeError(
    `${what} must say who decides in one line of 1 to ${BY_CHARS_MAX} characters`,
  );
}

/** Throws `TypeError` or `RangeError`. */
export function checkQuestion(name: string, question: ApprovalQuestion): void {
  if (typeof name !== "string" || name === "" || name.length > STEP_NAME_CHARS_MAX)
    throw new TypeError(
      `approval(name, …): the name must be text of 1 to ${STEP_NAME_CHARS_MAX} characters`,
    );
  checkOptions(`approval "${name}"`, question, QUESTION);
  const { prompt, notify } = question;
  if (notify !== undefined && typeof notify !== "function")
    throw new TypeError(`approval "${name}": notify must be a function`);
  if (prompt === undefined) return;
  if (typeof prompt !== "string")
    throw new TypeError(`approval "${name}": the prompt must be text, not a ${typeof prompt}`);
  if (prompt.length > PROMPT_CHARS_MAX)
    throw new RangeError(
      `approval "${name}": the prompt has at most ${PROMPT_CHARS_MAX} characters`,
    );
}
