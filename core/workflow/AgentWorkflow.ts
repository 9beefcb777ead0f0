/**
 * The class that users extend for work of several steps (`interface.md`, `protocol.md` §7):
 * `run` is replayed from its start after each pause, and its steps return their recorded results.
 * `WorkflowRun` constructs and drives it.
 */
import type { ApprovalGrant, ApprovalLinkOptions, ApprovalQuestion } from "../approval/Approval.ts";
import { writtenJson } from "../journal/jsonText.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";
import { WorkflowRejectedError } from "./errors.ts";
import type { WorkflowDuration } from "./stepConfig.ts";
import {
  WORKFLOW_MARK,
  WorkflowEntrypoint,
  type WorkflowEntrypointContext,
} from "./WorkflowEntrypoint.ts";
import type { WorkflowEvent, WorkflowStep, WorkflowStepEvent } from "./WorkflowStep.ts";

/** The default shape of `reportProgress`. */
export interface DefaultProgress {
  readonly step?: string;
  readonly status?: "pending" | "running" | "complete" | "error";
  readonly message?: string;
  /** 0 to 1. */
  readonly percent?: number;
  readonly [key: string]: unknown;
}

/** Options of `waitForApproval`. */
export interface ApprovalOptions {
  /** Default `wait-for-approval`. */
  readonly stepName?: string;
  readonly timeout?: WorkflowDuration;
  /** Default `approval`. */
  readonly eventType?: string;
}

/** The constructor's argument, made by the runtime. */
export interface WorkflowContext extends WorkflowEntrypointContext {
  readonly workflowId: string;
  readonly workflowName: string;
  readonly agent: () => unknown;
  /** Not durable; dropped while `run` is being replayed. */
  readonly reportProgress: (progress: unknown) => Promise<void>;
  readonly broadcast: (message: string) => void;
  readonly approval: <Metadata>(
    name: string,
    question: ApprovalQuestion,
  ) => Promise<ApprovalGrant<Metadata>>;
  readonly approvalLink: (which: string, options: ApprovalLinkOptions) => Promise<string>;
  /** For `waitForApproval`. */
  readonly waitForAnswer: <Payload>(
    name: string,
    options: { readonly type: string; readonly timeout?: WorkflowDuration },
  ) => Promise<WorkflowStepEvent<Payload>>;
}

/** A workflow, of which agents start instances. Extend it and export the class from the module. */
export abstract class AgentWorkflow<
  A = unknown,
  Params = unknown,
  Progress = DefaultProgress,
  Env = Record<string, unknown>,
> extends WorkflowEntrypoint<Env, Params> {
  static override readonly [WORKFLOW_MARK] = true;

  declare readonly ctx: WorkflowContext;
  declare readonly env: Env;

  /**
   * Everything with an effect belongs in a step. The code between steps runs again with each replay
   * and must do the same each time, so it may use neither the clock, randomness nor `fetch`.
   */
  abstract override run(event: WorkflowEvent<Params>, step: WorkflowStep): Promise<unknown>;

  /** The instance's id. */
  get workflowId(): string {
    return this.ctx.workflowId;
  }
  /** The name of the binding by which it was started. */
  get workflowName(): string {
    return this.ctx.workflowName;
  }
  /** A stub of the agent that started the instance. Throws if no agent did. */
  get agent(): AgentStub<A> {
    return this.ctx.agent() as AgentStub<A>;
  }

  /** Calls the agent's `onWorkflowProgress`. Not durable: lost if a host dies meanwhile. */
  reportProgress(progress: Progress): Promise<void> {
    return this.ctx.reportProgress(progress);
  }

  /** Sends a message, as JSON, to every client of the agent. Not durable, not awaited. */
  broadcastToClients(message: unknown): void {
    this.ctx.broadcast(writtenJson(message, "broadcastToClients: the message") ?? "null");
  }

  /**
   * Asks people and waits for the answer of one of them, as a step of the instance. Resolves with
   * who approved and when. Rejects with `ApprovalRejected`, with `ApprovalTimedOut`, and with the
   * last error of `notify`. It is answered by a link (`approvalLink`), by `decideApproval` of the
   * instance's handle, or by the agent's `approveWorkflow(id, metadata, { approval: name, by })`.
   */
  approval<Metadata = unknown>(
    name: string,
    question: ApprovalQuestion = {},
  ): Promise<ApprovalGrant<Metadata>> {
    return this.ctx.approval(name, question);
  }

  /**
   * A link by which one person answers an approval of this instance, by its name or id, once.
   * For a step's function. Rejects with `TypeError` for bad options or without `APPROVAL_SECRET`,
   * and with an `Error` for an unknown approval.
   */
  approvalLink(which: string, options: ApprovalLinkOptions): Promise<string> {
    return this.ctx.approvalLink(which, options);
  }

  /**
   * Waits for `approveWorkflow`, and resolves with its metadata. Rejects with
   * `WorkflowRejectedError` after `rejectWorkflow`, which the agent's `onWorkflowError` has
   * received by then, and with `WorkflowTimeoutError`.
   */
  async waitForApproval<Metadata = unknown>(
    step: WorkflowStep,
    options: ApprovalOptions = {},
  ): Promise<Metadata | undefined> {
    const { stepName = "wait-for-approval", eventType = "approval", timeout } = options;
    const { payload } = await this.ctx.waitForAnswer<Answered | undefined>(stepName, {
      type: eventType,
      ...(timeout === undefined ? {} : { timeout }),
    });
    if (payload?.approved === true) return payload.metadata as Metadata | undefined;
    await step.reportError(payload?.reason ?? "Workflow rejected");
    throw new WorkflowRejectedError(payload?.reason, this.workflowId);
  }
}

interface Answered {
  readonly approved?: boolean;
  readonly reason?: string;
  readonly metadata?: unknown;
}
