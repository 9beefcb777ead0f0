/** The package's entry `agents/react`: the React hook that connects a component to an agent. */
export { useAgent, type UseAgentResult } from "./useAgent.ts";
export type { McpServersState, PathStep, UseAgentOptions } from "./agentOptions.ts";
export type { AgentStub, CallOptions, StreamOptions, UntypedAgentStub } from "../client/index.ts";
