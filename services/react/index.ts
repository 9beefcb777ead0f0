/**
 * The package's entry `agents/react`: the hooks that connect a component to an agent, and show it
 * which sub-agents the agent uses as tools.
 */
export { useAgent, type UseAgentResult } from "./useAgent.ts";
export type { McpServersState, PathStep, UseAgentOptions } from "./agentOptions.ts";
export {
  useAgentToolEvents,
  type AgentToolEvents,
  type AgentToolEventSource,
} from "./useAgentToolEvents.ts";
export type { AgentToolRunsView } from "./AgentToolRuns.ts";
export type {
  AgentToolDisplayMetadata,
  AgentToolEvent,
  AgentToolEventMessage,
  AgentToolInterruptedReason,
  AgentToolMilestone,
  AgentToolProgressSnapshot,
  AgentToolRunPart,
  AgentToolRunState,
} from "./AgentToolEvent.ts";
export type { AgentStub, CallOptions, StreamOptions, UntypedAgentStub } from "../client/index.ts";
