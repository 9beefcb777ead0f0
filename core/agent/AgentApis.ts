/**
 * The objects that the methods of `Agent` delegate to, one for each domain. Each is created when it
 * is first used, since most agents in memory use none of them. The runtime owns them, and reaches
 * them without the user's object.
 *
 * To add a method to `Agent`, write it in its domain's class and delegate to it in `Agent`. A new
 * domain gets a getter here.
 */
import type { FiberRecoveryContext, FiberRecoveryResult } from "../fiber/Fiber.ts";
import { Approvals, type ApprovalsAgent } from "../approval/Approvals.ts";
import type { Budgets } from "../budget/Budgets.ts";
import { FiberApprovals } from "../fiber/FiberApprovals.ts";
import { FiberApi } from "../fiber/FiberApi.ts";
import { Fibers } from "../fiber/Fibers.ts";
import { FiberSteps } from "../fiber/FiberSteps.ts";
import { MailApi, type MailApiAgent } from "../outgoing/MailApi.ts";
import { McpApi, type McpApiAgent } from "../mcp/McpApi.ts";
import { ScheduleApi } from "../schedule/ScheduleApi.ts";
import type { SchedulesOfAgent } from "../schedule/ScheduleTable.ts";
import { AgentFetch } from "../step/AgentFetch.ts";
import { AgentSteps, type StepsAgent } from "../step/AgentSteps.ts";
import { StreamApi, type StreamsKept } from "../stream/StreamApi.ts";
import type { SubAgentTable } from "../subAgent/SubAgentTable.ts";
import { SubAgents } from "../subAgent/SubAgents.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import { WorkflowApi, type WorkflowApiAgent, type WorkflowOwner } from "../workflow/WorkflowApi.ts";
import type { AgentStaticOptions } from "./AgentStaticOptions.ts";

/** What the APIs need of the agent in memory. */
export interface ApisAgent
  extends
    AgentWork,
    MailApiAgent,
    Omit<McpApiAgent, "options" | "turn">,
    Omit<StepsAgent, "options">,
    Omit<WorkflowApiAgent, "agent"> {
  readonly scheduler: SchedulesOfAgent;
  /** Throws in the function of a step. */
  assertMayWrite(): void;
  readonly options: AgentStaticOptions;
  readonly parts: StepsAgent["parts"] & ApprovalsAgent["parts"];
  readonly keeping: StreamsKept & { readonly budgets: Budgets };
  readonly agent: WorkflowOwner & {
    /** Where a Durable Object's agent lists its facets. */
    readonly facetTable?: { readonly facets: SubAgentTable };
    onFiberRecovered(
      context: FiberRecoveryContext,
    ): Promise<void | FiberRecoveryResult> | void | FiberRecoveryResult;
  };
}

export class AgentApis {
  readonly #agent: ApisAgent;
  #approvals: Approvals | undefined;
  #fiberApprovals: FiberApprovals | undefined;
  #fetch: AgentFetch | undefined;
  #fibers: FiberApi | undefined;
  #fiberSteps: FiberSteps | undefined;
  #mail: MailApi | undefined;
  #mcp: McpApi | undefined;
  #schedules: ScheduleApi | undefined;
  #steps: AgentSteps | undefined;
  #streams: StreamApi | undefined;
  #subAgents: SubAgents | undefined;
  #workflows: WorkflowApi | undefined;

  constructor(agent: ApisAgent) {
    this.#agent = agent;
  }

  get approvals(): Approvals {
    return (this.#approvals ??= new Approvals(this.#agent));
  }
  get fiberApprovals(): FiberApprovals {
    return (this.#fiberApprovals ??= new FiberApprovals(this.#agent, this.approvals));
  }
  get budgets(): Budgets {
    return this.#agent.keeping.budgets;
  }
  get fetch(): AgentFetch {
    return (this.#fetch ??= new AgentFetch(this.#agent, this.steps));
  }
  get fibers(): FiberApi {
    const agent = this.#agent;
    return (this.#fibers ??= new FiberApi(
      new Fibers(agent, {
        options: agent.options,
        kept: [this.fiberApprovals, this.fiberSteps],
        steps: {
          done: (fiber) => this.fiberSteps.done(fiber),
          failure: (fiber) => this.fiberSteps.failure(fiber),
          undo: async (failure) => (await this.steps.undo(agent.turn(), failure)).reason,
        },
        onRecovered: (context) => agent.agent.onFiberRecovered(context),
      }),
      agent.time,
    ));
  }
  get fiberSteps(): FiberSteps {
    return (this.#fiberSteps ??= new FiberSteps(this.#agent));
  }
  get mail(): MailApi {
    return (this.#mail ??= new MailApi(this.#agent));
  }
  get mcp(): McpApi {
    return (this.#mcp ??= new McpApi(this.#agent));
  }
  get schedules(): ScheduleApi {
    return (this.#schedules ??= new ScheduleApi(this.#agent));
  }
  get streams(): StreamApi {
    return (this.#streams ??= new StreamApi(this.#agent.keeping));
  }
  get steps(): AgentSteps {
    return (this.#steps ??= new AgentSteps(this.#agent, this.fiberSteps));
  }
  get subAgents(): SubAgents {
    const { agent, parts } = this.#agent;
    return (this.#subAgents ??= new SubAgents(this.#agent, parts.env, agent.facetTable?.facets));
  }
  get workflows(): WorkflowApi {
    return (this.#workflows ??= new WorkflowApi(this.#agent));
  }
}
