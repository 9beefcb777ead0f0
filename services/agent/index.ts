/**
 * The package's entry `agents`: what a module of agents imports. The runtime that keeps the agents is
 * not here; it hands itself to each agent through its `ctx`.
 */
export {
  Agent,
  AGENT_STATIC_OPTIONS_DEFAULT as DEFAULT_AGENT_STATIC_OPTIONS,
  type AgentStaticOptions,
  type ConnectionContext,
  type RetryOptions,
  type StateSource,
} from "../../core/agent/Agent.ts";
export { AgentContext } from "../../core/agent/AgentContext.ts";
export { AgentStorage, SqlCursor } from "../../core/agent/AgentStorage.ts";
export { AgentNamespace, getAgentByName, type AgentStub } from "../../core/agent/AgentNamespace.ts";
export { callable, type CallableMetadata } from "../../core/agent/callable.ts";
export { Connection, type ConnectionMessage } from "../../core/agent/Connection.ts";
export { AgentDiscarded, ReadonlyConnection, SqlError } from "../../core/agent/errors.ts";
export { StreamingResponse } from "../../core/agent/StreamingResponse.ts";
export { routeAgentRequest, type RouteOptions } from "../../core/agent/routeAgentRequest.ts";
export { AgentUnreachable } from "../../core/call/CallClient.ts";
export { camelCaseToKebabCase, InvalidAddress } from "../../schemas/Address.ts";
export { getCurrentAgent, type CurrentAgent } from "../node/AsyncAmbient.ts";
