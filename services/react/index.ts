/** The package's entry `agents/react`: what a React page imports to talk to an agent. */
export { useAgent, type UseAgentResult } from "./useAgent.ts";
export type { McpServersState, PathStep, UseAgentOptions } from "./agentOptions.ts";
export type { AgentStub, CallOptions, StreamOptions, UntypedAgentStub } from "../client/index.ts";
