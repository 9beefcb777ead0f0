/**
 * The package's entry `agents/client`: the client for pages, scripts and other servers. It needs no
 * framework and contains nothing of the server.
 */
export { AgentClient } from "./AgentClient.ts";
export type { AgentClientEvents, AgentClientOptions } from "./AgentClientOptions.ts";
export { AgentConnectionError, isTerminalCloseEvent } from "./AgentConnectionError.ts";
export { agentFetch, type AgentFetchOptions as AgentClientFetchOptions } from "./agentFetch.ts";
export type { AgentAddress } from "./agentAddress.ts";
export type {
  AgentCall,
  AgentMethods,
  AgentStub,
  CallOptions,
  CallResult,
  ClientParameters,
  FollowOptions,
  StateOf,
  StreamOptions,
  UntypedCall,
  UntypedStub as UntypedAgentStub,
} from "./clientTypes.ts";
export { DEFAULT_CALL_TIMEOUT_MS } from "./PendingCalls.ts";
export { createStubProxy } from "./stubProxy.ts";
