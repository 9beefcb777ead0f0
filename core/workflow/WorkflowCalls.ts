/**
 * What a binding asks of a workflow instance by stub calls: `WorkflowBinding` makes the calls,
 * `core/runtime/WorkflowRun` answers them. Each rejects for what the instance's status does not
 * allow.
 */
import type { Approval, ApprovalCriteria, ApprovalDecision } from "../approval/Approval.ts";
import type { StoredError } from "./errors.ts";
import type { WorkflowStatus } from "./RunTable.ts";

/** The status of an instance, with its error or its output once it has ended. */
export interface InstanceStatus {
  readonly status: WorkflowStatus;
  readonly error?: StoredError;
  readonly output?: unknown;
  /** What became of the undos, once those of a failed or terminated instance have run. */
  readonly rollback?: {
    /** `failed`: an undo has failed, the first with this error, or was cut short by `terminate`. */
    readonly outcome: "complete" | "failed";
    readonly error: StoredError | null;
  };
}

/** Options of `terminate`. */
export interface WorkflowTerminateOptions {
  /** Undo the steps first, as after an error. Default false. */
  readonly rollback?: boolean;
}

export type ControlAction = "pause" | "resume" | "terminate" | "restart";

export interface WorkflowCalls {
  /**
   * Starts the instance for no agent. False when it was started before; a host of an older release
   * rejects then.
   */
  begin(workflowName: string, params: unknown): Promise<boolean>;
  takeEvent(type: string, payload: unknown): Promise<void>;
  /** `unknown` for an instance that was never started. */
  status(): Promise<InstanceStatus>;
  /** Resolves to the status after the action. */
  control(action: ControlAction, options?: WorkflowTerminateOptions): Promise<InstanceStatus>;
  /** Those of `Agent`, which an instance is. */
  getApprovals(criteria?: ApprovalCriteria): Approval[];
  decideApproval(which: string, decision: ApprovalDecision): Promise<Approval>;
}
