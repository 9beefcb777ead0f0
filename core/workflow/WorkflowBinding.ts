/**
 * `env.ORDER_WORKFLOW`: the binding of a workflow class. Agents start and follow instances by its
 * name (`runWorkflow`); a handler outside of any agent does it here, as on the reference's
 * platform.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { topLevelId } from "../../schemas/AgentPath.ts";
import { AgentNamespace, type CallClientSource } from "../namespace/AgentNamespace.ts";
import type { ControlAction, InstanceStatus, WorkflowCalls } from "./WorkflowCalls.ts";

export interface CreateOptions {
  readonly id: string;
  readonly params?: unknown;
}

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

  get(id: string): WorkflowInstance {
    return new WorkflowInstance(id, this.#instances);
  }
}

/** One instance, from outside. Each method rejects when there is none of that id. */
export class WorkflowInstance {
  readonly id: string;
  readonly #instances: AgentNamespace<WorkflowCalls>;

  constructor(id: string, instances: AgentNamespace<WorkflowCalls>) {
    this.id = id;
    this.#instances = instances;
  }

  status(): Promise<InstanceStatus> {
    return this.#instances.getByName(this.id).status();
  }
  pause(): Promise<InstanceStatus> {
    return this.control("pause");
  }
  resume(): Promise<InstanceStatus> {
    return this.control("resume");
  }
  terminate(): Promise<InstanceStatus> {
    return this.control("terminate");
  }
  restart(): Promise<InstanceStatus> {
    return this.control("restart");
  }
  control(action: ControlAction): Promise<InstanceStatus> {
    return this.#instances.getByName(this.id).control(action);
  }
  async sendEvent(event: { readonly type: string; readonly payload?: unknown }): Promise<void> {
    await this.#instances.getByName(this.id).takeEvent(event.type, event.payload ?? null);
  }
}
