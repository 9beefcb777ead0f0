/**
 * The stub calls from a binding to a workflow instance: `WorkflowBinding` makes them,
 * `core/runtime/WorkflowRun` answers them. Each rejects if the instance's status does not allow it.
 */
import type { Approval, ApprovalCriteria, ApprovalDecision } from "../approval/Approval.ts";
import type { StoredError } from "./errors.ts";
import type { WorkflowStatus } from "./RunTable.ts";

/** The status of an instance, with its error or its output once it has ended. */
export interface InstanceStatus {
  readonly status: WorkflowStatus;
  readonly error?: StoredError;
  readonly output?: unknown;
  /** The outcome of the undos of a failed or terminated instance. */
  readonly rollback?: {
    /**
     * `failed`: an undo has failed, the first with this error, or was interrupted by `terminate`.
     */
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
   * Starts the instance without an agent. False if it was started before; a host of an older
   * release rejects then.
   */
  begin(workflowName: string, params: unknown): Promise<boolean>;
  takeEvent(type: string, payload: unknown): Promise<void>;
  /** `unknown` for an instance that was never started. */
  status(): Promise<InstanceStatus>;
  /** Resolves to the status after the action. */
  control(action: ControlAction, options?: WorkflowTerminateOptions): Promise<InstanceStatus>;
  /** The methods of `Agent`, which an instance is. */
  getApprovals(criteria?: ApprovalCriteria): Approval[];
  decideApproval(which: string, decision: ApprovalDecision): Promise<Approval>;
}
