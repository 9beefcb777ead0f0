/** Errors of approvals. Each message names the approval, and says what to do where that helps. */
import * as Data from "effect/Data";
import type { ApprovalStatus } from "./Approval.ts";

/** `this.approval` was rejected. */
export class ApprovalRejected extends Data.TaggedError("ApprovalRejected")<{
  readonly approval: string;
  /** Null: the answer named no person. */
  readonly by: string | null;
  readonly reason: string | undefined;
}> {
  override get message(): string {
    const { approval, by, reason } = this;
    const who = by === null ? "" : ` by ${by}`;
    return `approval "${approval}" was rejected${who}${reason === undefined ? "" : `: ${reason}`}`;
  }
}

/** `this.approval` received no answer within its `timeout`. */
export class ApprovalTimedOut extends Error {
  override readonly name = "ApprovalTimedOut";

  static of(approval: string, expiresAt: number): ApprovalTimedOut {
    const until = new Date(expiresAt).toISOString();
    return new ApprovalTimedOut(`approval "${approval}": nobody decided until ${until}`);
  }
}

/** A decision came after another one, after the timeout, or after the requester had ended. */
export class ApprovalClosed extends Data.TaggedError("ApprovalClosed")<{
  readonly approval: string;
  readonly status: Exclude<ApprovalStatus, "waiting">;
  readonly by: string | null;
}> {
  override get message(): string {
    const { approval, status, by } = this;
    return `approval "${approval}" can no longer be decided: it is ${status}${by === null ? "" : ` by ${by}`}`;
  }
}

/** `this.approval` of an agent outside of a fiber: nothing there could wait for people. */
export class ApprovalNotDurable extends Data.TaggedError("ApprovalNotDurable")<{
  readonly approval: string;
  /** What began the turn: `webhook`, `rpc`, … */
  readonly turn: string;
}> {
  override get message(): string {
    return `approval "${this.approval}": a turn of this kind (${this.turn}) can't wait for people. Ask in a workflow (runWorkflow) or in a fiber (startFiber)`;
  }
}
