/**
 * The parameters and results of `this.approval` and of what answers it: types, without the runtime.
 * `Approvals` keeps them, `approvalErrors.ts` has what can be thrown.
 */

/** `expired`: no decision came in time. `withdrawn`: the requester ended or asked again. */
export type ApprovalStatus = "waiting" | "approved" | "rejected" | "expired" | "withdrawn";

/** A question that people answer, as it stands now. */
export interface Approval {
  /** Random. A question that is asked again has a new one. */
  readonly id: string;
  readonly name: string;
  readonly prompt: string | null;
  readonly status: ApprovalStatus;
  /** Milliseconds since the epoch, like the next two. */
  readonly askedAt: number;
  readonly expiresAt: number;
  /** Null while it is open, and without a decision. */
  readonly decidedAt: number | null;
  /** Who decided, as `by` of the decision said. */
  readonly by: string | null;
  readonly reason: string | null;
  /** Absent: none was given. */
  readonly metadata?: unknown;
}

/** Options of `approvalLink`. */
export interface ApprovalLinkOptions {
  /** Where gateways are reached: `https://agents.example.com`. */
  readonly origin: string;
  /** Whom the link is sent to: `by` of the decision. 1 to 256 characters. */
  readonly for: string;
  /**
   * The link ends after this span, in milliseconds or as text ("1 hour"). Default, and at most:
   * with the approval.
   */
  readonly timeout?: number | string;
}

/** What `notify` receives. */
export interface AskedApproval extends Approval {
  /** As `approvalLink`. */
  readonly link: (options: ApprovalLinkOptions) => Promise<string>;
}

/** Options of `this.approval`. */
export interface ApprovalQuestion {
  /** What people read before they decide: text of at most 4,000 characters. */
  readonly prompt?: string;
  /** Milliseconds or text ("3 days"). Default 24 hours; at most a year. */
  readonly timeout?: number | string;
  /**
   * Called once the question is stored, to notify people; called again if its host ends meanwhile.
   * An error that it throws for good ends the approval.
   */
  readonly notify?: (asked: AskedApproval) => unknown;
}

/** What `this.approval` resolves to. */
export interface ApprovalGrant<Metadata = unknown> {
  /** Who approved; null where the answer did not say. */
  readonly by: string | null;
  /** When, milliseconds since the epoch. */
  readonly at: number;
  readonly reason?: string;
  readonly metadata?: Metadata;
}

/** An answer. */
export interface ApprovalDecision {
  readonly approved: boolean;
  /** Who decides: 1 to 256 characters, without line breaks. It is in the agent's history. */
  readonly by: string;
  /** At most 2,000 characters. */
  readonly reason?: string;
  /** JSON, at most 64 Ki characters. */
  readonly metadata?: unknown;
}

/** Which approvals `getApprovals` returns: those that meet all given criteria. */
export interface ApprovalCriteria {
  readonly id?: string;
  readonly name?: string;
  readonly status?: ApprovalStatus;
}

/** The third argument of `approveWorkflow` and `rejectWorkflow`. */
export interface WorkflowAnswerOptions {
  /** Name of the `this.approval` that is answered. Default: `waitForApproval`. */
  readonly approval?: string;
  /** Who decides. */
  readonly by?: string;
}
