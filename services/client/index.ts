/**
 * The package's entry `agents/client`: what a page, a script or another server imports to talk to an
 * agent. No framework, and nothing of the server.
 */
export { AgentClient, type AgentClientEvents, type AgentClientOptions } from "./AgentClient.ts";
export { AgentConnectionError, isTerminalCloseEvent } from "./AgentConnectionError.ts";
export { agentFetch, type AgentFetchOptions as AgentClientFetchOptions } from "./agentFetch.ts";
export type {
  AgentCall,
  AgentMethods,
  AgentStub,
  CallOptions,
  CallResult,
  ClientParameters,
  StateOf,
  StreamOptions,
  UntypedStub as UntypedAgentStub,
} from "./clientTypes.ts";
export { DEFAULT_CALL_TIMEOUT_MS } from "./PendingCalls.ts";
export { createStubProxy } from "./stubProxy.ts";
