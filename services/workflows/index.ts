/**
 * `agents/workflows`: durable work in several steps (`protocol.md` §7). Export a subclass of
 * `AgentWorkflow` from the module, and start it from an agent with `runWorkflow`;
 * `docs/guides/workflows.md` shows how.
 */
export {
  AgentWorkflow,
  type ApprovalOptions,
  type DefaultProgress,
} from "../../core/workflow/AgentWorkflow.ts";
export type {
  Approval,
  ApprovalCriteria,
  ApprovalDecision,
  ApprovalGrant,
  ApprovalLinkOptions,
  ApprovalQuestion,
  ApprovalStatus,
  AskedApproval,
} from "../../core/approval/Approval.ts";
export { ApprovalRejected, ApprovalTimedOut } from "../../core/approval/approvalErrors.ts";
export {
  NonRetryableError,
  WorkflowCodeChanged,
  WorkflowRejectedError,
  WorkflowTimeoutError,
} from "../../core/workflow/errors.ts";
export type { Backoff, StepConfig, WorkflowDuration } from "../../core/workflow/stepConfig.ts";
export type {
  StepContext,
  StepUndoOptions,
  WorkflowEvent,
  WorkflowEvent as AgentWorkflowEvent,
  WorkflowRollbackContext,
  WorkflowStep,
  WorkflowStep as AgentWorkflowStep,
  WorkflowStepEvent,
} from "../../core/workflow/WorkflowStep.ts";
export type {
  WorkflowBinding,
  WorkflowCreateOptions,
  WorkflowInstance,
} from "../../core/workflow/WorkflowBinding.ts";
export type {
  InstanceStatus,
  WorkflowTerminateOptions,
} from "../../core/workflow/WorkflowCalls.ts";
export type { WorkflowStatus } from "../../core/workflow/RunTable.ts";
export type {
  RunWorkflowOptions,
  WorkflowDeleteCriteria,
  WorkflowInfo,
  WorkflowPage,
  WorkflowQueryCriteria,
} from "../../core/workflow/WorkflowTable.ts";
export type {
  WorkflowCallback,
  WorkflowCompleteCallback,
  WorkflowErrorCallback,
  WorkflowEventCallback,
  WorkflowHookArgument,
  WorkflowProgressCallback,
} from "../../core/workflow/WorkflowCallback.ts";
