/** The parts of an agent in memory, which the host that activates it passes to `ActiveAgent`. */
import type { Agent } from "../agent/Agent.ts";
import type { AgentStaticOptions } from "../agent/AgentStaticOptions.ts";
import type { AgentContext } from "../agent/AgentContext.ts";
import type { AgentMetrics } from "../telemetry/AgentMetrics.ts";
import type { Observability } from "../telemetry/observability.ts";
import type { AgentOutlet } from "../turn/AgentOutlet.ts";
import type { AmbientShape } from "../turn/Ambient.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { MailTransportShape } from "../mail/MailTransport.ts";
import type { McpClientsShape } from "../mcp/McpClients.ts";
import type { OutgoingShape } from "../outgoing/Outgoing.ts";
import type { TimeShape } from "../time/Time.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import type { Committer } from "../turn/Committer.ts";
import type { SchedulerPorts } from "../schedule/Scheduler.ts";
import type { Meter } from "../telemetry/Usage.ts";
import type { CeilingName } from "../turn/Ceilings.ts";
import type { TurnLimits } from "../turn/TurnLimits.ts";
import type { Turn } from "../turn/Turn.ts";
import type { TurnEnd } from "../turn/TurnEnd.ts";
import type { RecordedSteps } from "../step/RecordedSteps.ts";
import type { Unbegun } from "../input/Unbegun.ts";
import type { WriteLimits } from "../turn/WriteLimits.ts";

export type AgentClassType = (new (ctx: AgentContext, env: never) => Agent<unknown>) & {
  options?: AgentStaticOptions;
};

/** `Self` is the class of the agent that is made of these parts. */
export interface ActiveAgentParts<Self> {
  readonly image: AgentImage;
  readonly database: AgentDatabase;
  readonly agentClass: AgentClassType;
  readonly env: unknown;
  /** Namespace of the installation. */
  readonly installation: string;
  readonly time: TimeShape;
  readonly ambient: AmbientShape;
  readonly log: LogShape;
  readonly outlet: AgentOutlet;
  /** The default `observability` of agents. */
  readonly observability: Observability;
  readonly jobs: SchedulerPorts;
  readonly outgoing: OutgoingShape;
  /** Recorded results of steps, for turns that are run again. Undefined: no turn is. */
  readonly recorded?: RecordedSteps | undefined;
  /** Where budgets are counted. Undefined: nowhere. */
  readonly metrics?: Pick<AgentMetrics, "budgetSpent" | "budgetRefused"> | undefined;
  /** Undefined: MCP servers can't be used. */
  readonly mcp: McpClientsShape | undefined;
  readonly mail: MailTransportShape;
  /** Shared by all agents of the host. */
  readonly unbegun: Unbegun;
  readonly makeCommitter: (agent: Self) => Committer;
  /** Shared by all agents of the host. */
  readonly turnLimits: TurnLimits;
  /** Measures what the agent costs. */
  readonly meter: Meter;
  /** Seconds that a turn may take; 0: no limit. */
  readonly turnSeconds: number;
  readonly ceiling: (name: CeilingName) => number;
  /** Made when it first writes. */
  readonly limits: WriteLimits;
  /** As `AgentTurns.report`. */
  readonly onTurnEnd: (turn: Turn, end: TurnEnd) => void;
  /** The agent must leave memory without committing (`ctx.abort`, a broken invariant). */
  readonly onAbort: (reason: string) => void;
  /**
   * Called once the agent was destroyed in this turn and that is stored. The agent leaves memory,
   * and the next input starts a new one.
   */
  readonly onDestroyed: (turn: Turn) => void;
}
