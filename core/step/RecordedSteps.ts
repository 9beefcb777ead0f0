/**
 * The steps of past turns that are run again on other code: each returns its recorded result, and
 * none reaches the world. `AgentSteps` asks; the journal's events are the recording
 * (`core/history/pastWebhooks`).
 *
 * 1. A step has the recorded result of the step with its key.
 * 2. A recorded `fetch` returns the answer of an equal request with its name, in any order. A
 *    request that equals none is a difference, and fails.
 * 3. Requests that were not recorded are equal if their keys are.
 * 4. A step that failed when it was recorded fails again, with the same error.
 */
import * as Data from "effect/Data";
import type { Cause, StepRequest } from "../../schemas/JournalEvent.ts";
import { errorOfFailure } from "../errors/failureText.ts";
import type { RecordedStep } from "../history/Rerun.ts";
import { differenceLine, stateDifferences } from "../history/agentDifferences.ts";
import type { StepText } from "./runAttempts.ts";
import { nameOfStep } from "./stepKey.ts";

/** The code asks for a step, or makes a request, that the past turn did not. */
class StepNotRecorded extends Data.TaggedError("StepNotRecorded")<{ readonly what: string }> {
  override get message(): string {
    return `${this.what}: the recorded turn has no result for it, and a re-run sends nothing`;
  }
}

export interface RecordedSteps {
  /** Undefined: the turn's input is not a past one, and its steps run. */
  readonly of: (cause: Cause) => RecordedTurn | undefined;
}

export class RecordedTurn {
  /** A line for each step or request that has no recorded result. */
  readonly differences: string[] = [];
  private readonly steps: ReadonlyMap<string, RecordedStep>;
  private readonly taken = new Set<string>();

  constructor(steps: ReadonlyArray<RecordedStep>) {
    this.steps = new Map(steps.map((step) => [step.key, step]));
  }

  /** `request`: of a `fetch`. Throws what the step failed with, or `StepNotRecorded`. */
  take(key: string, request: StepRequest | undefined): StepText {
    const found = this.find(key, request);
    if (found === undefined) {
      const what = request === undefined ? stepOf(key) : `fetch ${request.method} ${request.url}`; // prettier-ignore
      const then = request && this.steps.get(key)?.request;
      const lines = then === undefined ? ["it was not recorded"] : requestDifferences(then, request!); // prettier-ignore
      for (const line of lines) this.differences.push(`${what}: ${line}`);
      throw new StepNotRecorded({ what });
    }
    this.taken.add(found.key);
    if (found.error !== undefined) throw errorOfFailure(found.error);
    return found.result === undefined ? undefined : JSON.stringify(found.result);
  }

  private find(key: string, request: StepRequest | undefined): RecordedStep | undefined {
    const same = this.steps.get(key);
    if (request === undefined || (same !== undefined && same.request === undefined)) return same;
    const equal = (step: RecordedStep | undefined): boolean =>
      step?.request !== undefined && requestDifferences(step.request, request).length === 0;
    if (equal(same) && !this.taken.has(key)) return same;
    const name = nameOfStep(key);
    const others = [...this.steps.values()].filter((step) => nameOfStep(step.key) === name);
    return others.find((step) => !this.taken.has(step.key) && equal(step)) ?? (equal(same) ? same : undefined); // prettier-ignore
  }
}

const stepOf = (key: string): string =>
  key.startsWith("undo ") ? `the undo of step "${nameOfStep(key)}"` : `step "${nameOfStep(key)}"`;

/** A line for each difference; none: they are equal. */
function requestDifferences(was: StepRequest, is: StepRequest): ReadonlyArray<string> {
  const parts = ({ url, headers, body, bodyBase64 }: StepRequest): unknown => ({
    url,
    headers,
    body: bodyBase64 ?? json(body),
  });
  return Array.from(stateDifferences(parts(was), parts(is), "request"), (one) =>
    differenceLine(one),
  );
}

function json(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
