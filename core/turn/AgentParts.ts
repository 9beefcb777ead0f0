/** What an agent in memory is made of: given to `ActiveAgent` by the host that activates it. */
import type { AgentId } from "../../schemas/Address.ts";
import type { GatewayMessage } from "../../schemas/Call.ts";
import type { Agent, AgentStaticOptions } from "../agent/Agent.ts";
import type { AgentContext } from "../agent/AgentContext.ts";
import type { Observability } from "../telemetry/observability.ts";
import type { AmbientShape } from "./Ambient.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { MailTransportShape } from "../mail/MailTransport.ts";
import type { McpClientsShape } from "../mcp/McpClients.ts";
import type { OutgoingShape } from "../outgoing/Outgoing.ts";
import type { TimeShape } from "../time/Time.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import type { Committer } from "./Committer.ts";
import type { SchedulerPorts } from "../schedule/Scheduler.ts";
import type { Turn } from "./Turn.ts";
import type { Unbegun } from "../input/Unbegun.ts";
import type { WriteLimits } from "./WriteLimits.ts";

export type AgentClassType = (new (ctx: AgentContext, env: never) => Agent<unknown>) & {
  options?: AgentStaticOptions;
};

/** Where an agent's outputs go; the host's adapters. Called only after the gate. */
export interface AgentOutlet {
  readonly toGateway: (gateway: string, message: GatewayMessage, body?: Uint8Array) => void;
  /** `state` is JSON text; undefined: unset. */
  readonly publishState: (
    id: AgentId,
    seq: number,
    timeMs: number,
    state: string | undefined,
  ) => void;
}

export interface ActiveAgentParts {
  readonly image: AgentImage;
  readonly database: AgentDatabase;
  readonly agentClass: AgentClassType;
  readonly env: unknown;
  readonly time: TimeShape;
  readonly ambient: AmbientShape;
  readonly log: LogShape;
  readonly outlet: AgentOutlet;
  /** What an agent's `observability` is unless its class sets another. */
  readonly observability: Observability;
  readonly jobs: SchedulerPorts;
  readonly outgoing: OutgoingShape;
  /** Undefined: none can be connected to. */
  readonly mcp: McpClientsShape | undefined;
  readonly mail: MailTransportShape;
  /** The host's. */
  readonly unbegun: Unbegun;
  readonly makeCommitter: (agent: ActiveAgent) => Committer;
  /** Made when it first writes. */
  readonly limits: WriteLimits;
  /** The agent must leave memory without committing (`ctx.abort`, a broken invariant). */
  readonly onAbort: (reason: string) => void;
  /** The agent was destroyed in this turn, and that is stored: it leaves memory, what comes next meets a fresh one. */
  readonly onDestroyed: (turn: Turn) => void;
}
