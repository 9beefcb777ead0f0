/**
 * `env.ORDER_WORKFLOW`: the binding of a workflow class. Agents start and follow instances by its
 * name (`runWorkflow`); a handler outside of any agent uses the binding itself, as on the
 * reference's platform.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { topLevelId } from "../../schemas/AgentPath.ts";
import { toBase64Url } from "../../schemas/base64.ts";
import { AgentNamespace } from "../namespace/AgentNamespace.ts";
import type { CallClientSource } from "../namespace/stubTarget.ts";
import type { Approval, ApprovalCriteria, ApprovalDecision } from "../approval/Approval.ts";
import type {
  ControlAction,
  InstanceStatus,
  WorkflowCalls,
  WorkflowTerminateOptions,
} from "./WorkflowCalls.ts";

/** Options of a binding's `create`. */
export interface WorkflowCreateOptions {
  /** Unique within the workflow. Default: `wf_` and a random id. */
  readonly id?: string;
  /** JSON; the event's `payload`. Default: null. */
  readonly params?: unknown;
  /** Accepted and ignored: instances are kept until they are destroyed. */
  readonly retention?: unknown;
  /** Accepted for apps written for the reference, and ignored. */
  readonly locationHint?: string;
}

/** Random bytes of a generated id: as many as a UUID has. */
const ID_BYTES = 16;

/** The binding of a workflow class in `env`: starts instances for code outside of agents. */
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

  /** Starts an instance that no agent follows. Rejects if the id is in use. */
  async create({ id = newId(), params }: WorkflowCreateOptions = {}): Promise<WorkflowInstance> {
    if (await this.#begin(id, params)) return this.instance(id);
    throw new Error(`Workflow ${this.className} "${id}" already exists`);
  }

  /** Starts several. Resolves to the new instances, without ids that already exist. */
  async createBatch(batch: ReadonlyArray<WorkflowCreateOptions>): Promise<WorkflowInstance[]> {
    if (!Array.isArray(batch))
      throw new TypeError(
        "createBatch() takes an array of options of create(); the form of an object with `instances` or `count` is not available",
      );
    const given = batch as ReadonlyArray<WorkflowCreateOptions>;
    const begun = await Promise.all(
      given.map(async ({ id = newId(), params }) => ((await this.#begin(id, params)) ? [id] : [])),
    );
    return begun.flat().map((id) => this.instance(id));
  }

  /** False if the id is in use. A host of an older release rejects instead. */
  async #begin(id: string, params: unknown): Promise<boolean> {
    return (await this.#instances.getByName(id).begin(this.className, params ?? null)) !== false;
  }

  /**
   * An instance that exists. Rejects with an `Error` if it was never started, was deleted, or if
   * the start by an agent's `runWorkflow` has not reached it yet.
   */
  async get(id: string): Promise<WorkflowInstance> {
    const instance = this.instance(id);
    const { status } = await instance.status();
    if (status !== "unknown") return instance;
    // Apps for the reference look for the code.
    throw new Error(`instance.not_found: Workflow ${this.className} "${id}" does not exist`);
  }

  /** A handle on an instance, whether it exists or not. Makes no request. */
  instance(id: string): WorkflowInstance {
    return new WorkflowInstance(id, this.#instances);
  }
}

const newId = (): string => `wf_${toBase64Url(crypto.getRandomValues(new Uint8Array(ID_BYTES)))}`;

/** A handle on one instance. Each method rejects if the instance does not exist. */
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
  /**
   * Ends the instance. Resolves to the status after that. With `rollback` its steps are undone
   * first: it is `running` until then.
   */
  terminate(options: WorkflowTerminateOptions = {}): Promise<InstanceStatus> {
    return this.#instances.getByName(this.id).control("terminate", options);
  }
  /**
   * Restarts at the first step, with the same params. Resolves to the status after that. Rejects
   * with `TypeError` if `from` is given.
   */
  async restart(options: { readonly from?: unknown } = {}): Promise<InstanceStatus> {
    if (options.from !== undefined)
      throw new TypeError("restart() starts at the first step: `from` is not available");
    return this.control("restart");
  }
  /**
   * Runs one of the four actions above by its name. Rejects if the instance's status does not allow
   * it.
   */
  control(action: ControlAction): Promise<InstanceStatus> {
    return this.#instances.getByName(this.id).control(action);
  }
  /** Its approvals, newest first; all, or those that meet the criteria. */
  approvals(criteria: ApprovalCriteria = {}): Promise<Approval[]> {
    return this.#instances.getByName(this.id).getApprovals(criteria);
  }
  /**
   * Decides an approval by its id, or by name: an open one, else the last. Resolves to it. A
   * repetition by the same person changes nothing. Rejects if it is decided, over or unknown.
   */
  decideApproval(which: string, decision: ApprovalDecision): Promise<Approval> {
    return this.#instances.getByName(this.id).decideApproval(which, decision);
  }
  /** Sends an event for `step.waitForEvent`; it is kept until a step waits for it. */
  async sendEvent(event: { readonly type: string; readonly payload?: unknown }): Promise<void> {
    await this.#instances.getByName(this.id).takeEvent(event.type, event.payload ?? null);
  }
}
