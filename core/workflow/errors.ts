/**
 * Errors of workflows: those that a step's code throws, and those that are thrown to `run`. A
 * recorded error is kept as name and message; `reviveError` returns the same error live and in
 * replay, so that a `catch` in `run` behaves the same after a crash.
 */

import { ApprovalTimedOut } from "../approval/approvalErrors.ts";
import { messageOf, nameOf } from "../errors/thrown.ts";

/** Thrown by a step's function to prevent retries. */
export class NonRetryableError extends Error {
  constructor(message: string, name = "NonRetryableError") {
    super(message);
    this.name = name;
  }
}

/** `waitForApproval` was answered by `rejectWorkflow` (`protocol.md` §7 fixes the text). */
export class WorkflowRejectedError extends Error {
  override readonly name = "WorkflowRejectedError";
  readonly reason: string | undefined;
  readonly workflowId: string;

  constructor(reason: string | undefined, workflowId: string) {
    super(reason === undefined ? "Workflow rejected" : `Workflow rejected: ${reason}`);
    this.reason = reason;
    this.workflowId = workflowId;
  }
}

/** A step took longer than its `timeout`, or no event arrived in time. */
export class WorkflowTimeoutError extends Error {
  override readonly name = "WorkflowTimeoutError";
}

/** `run` calls other steps than those recorded: nothing runs, and the instance ends. */
export class WorkflowCodeChanged extends Error {
  override readonly name = "WorkflowCodeChanged";
}

export interface StoredError {
  readonly name: string;
  readonly message: string;
}

/** The text of a thrown value; one that is not an error is named as such. */
export function describeThrown(thrown: unknown): StoredError {
  if (thrown instanceof Error) return { name: nameOf(thrown), message: messageOf(thrown) };
  const what = typeof thrown === "string" ? `the string ${JSON.stringify(thrown)}` : textOf(thrown);
  return { name: "Error", message: `${what} was thrown; throw an Error instead` };
}

export function reviveError({ name, message }: StoredError): Error {
  if (name === "WorkflowTimeoutError") return new WorkflowTimeoutError(message);
  if (name === "ApprovalTimedOut") return new ApprovalTimedOut(message);
  if (name === "NonRetryableError") return new NonRetryableError(message);
  const error = new Error(message);
  if (name !== error.name) error.name = name;
  return error;
}

function textOf(value: unknown): string {
  if (value === null || value === undefined || typeof value !== "object") return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    return messageOf(value);
  }
}
