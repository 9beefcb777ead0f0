/**
 * `env.ORDER_WORKFLOW`: the binding of a workflow class. Agents start and follow instances by its
 * name (`runWorkflow`); a handler outside of any agent does it here, as on the reference's
 * platform.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { topLevelId } from "../../schemas/AgentPath.ts";
import { AgentNamespace } from "../namespace/AgentNamespace.ts";
import type { CallClientSource } from "../namespace/stubTarget.ts";
import type { Approval, ApprovalCriteria, ApprovalDecision } from "../approval/Approval.ts";
import type { ControlAction, InstanceStatus, WorkflowCalls } from "./WorkflowCalls.ts";

export interface CreateOptions {
  readonly id: string;
  readonly params?: unknown;
}

/** The binding of a workflow class in `env`: starts instances for code that is no agent's. */
export class WorkflowBinding {
  /** Name of the workflow class: the first half of its instances' addresses. */
  readonly className: string;
  readonly #instances: AgentNamespace<WorkflowCalls>;

  constructor(className: string, client: CallClientSource) {
    this.className = className;
    this.#instances = new AgentNamespace(className, client);
  }

  /** Throws `InvalidAddress`, for a sub-agent's name too. */
  idOf(workflowId: string): AgentId {
    return topLevelId(this.className, workflowId);
  }

  /** Starts an instance that no agent follows. Rejects when there is one of that id. */
  async create({ id, params }: CreateOptions): Promise<WorkflowInstance> {
    await this.#instances.getByName(id).begin(this.className, params ?? null);
    return this.get(id);
  }

  /** A handle on an instance, whether it exists or not. */
  get(id: string): WorkflowInstance {
    return new WorkflowInstance(id, this.#instances);
  }
}

/** One instance, from outside. Each method rejects when there is no instance with that id. */
export class WorkflowInstance {
  readonly id: string;
  readonly #instances: AgentNamespace<WorkflowCalls>;

  constructor(id: string, instances: AgentNamespace<WorkflowCalls>) {
    this.id = id;
    this.#instances = instances;
  }

  /** The instance's status; `unknown` for one that was never started. */
  status(): Promise<InstanceStatus> {
    return this.#instances.getByName(this.id).status();
  }
  /** Pauses before the next step. Resolves to the status after that. */
  pause(): Promise<InstanceStatus> {
    return this.control("pause");
  }
  /** Resumes a paused instance. Resolves to the status after that. */
  resume(): Promise<InstanceStatus> {
    return this.control("resume");
  }
  /** Ends the instance. Resolves to the status after that. */
  terminate(): Promise<InstanceStatus> {
    return this.control("terminate");
  }
  /** Begins again at the first step, with the same params. Resolves to the status after that. */
  restart(): Promise<InstanceStatus> {
    return this.control("restart");
  }
  /** One of the four by its name. Rejects for what the instance's status does not allow. */
  control(action: ControlAction): Promise<InstanceStatus> {
    return this.#instances.getByName(this.id).control(action);
  }
  /** The approvals that it asked for, newest first; all, or those that meet the criteria. */
  approvals(criteria: ApprovalCriteria = {}): Promise<Approval[]> {
    return this.#instances.getByName(this.id).getApprovals(criteria);
  }
  /**
   * Decides an approval by its id, or by the name of one that waits, else of the last. Resolves to
   * it; the same answer of the same person again changes nothing. Rejects when it is decided or
   * over, and when there is none.
   */
  decideApproval(which: string, decision: ApprovalDecision): Promise<Approval> {
    return this.#instances.getByName(this.id).decideApproval(which, decision);
  }
  /** Sends an event for `step.waitForEvent`; it is kept until a step waits for it. */
  async sendEvent(event: { readonly type: string; readonly payload?: unknown }): Promise<void> {
    await this.#instances.getByName(this.id).takeEvent(event.type, event.payload ?? null);
  }
}
