/**
 * The package's entry `agents`: all that a module of agents imports. It does not contain the
 * runtime, which passes itself to each agent as `ctx`.
 */
export { Agent } from "../../core/agent/Agent.ts";
export type { EmailContext } from "../../core/mail/EmailRoute.ts";
export type { Module } from "./Module.ts";
export type { ConnectionContext, StateSource } from "../../core/agent/AgentHooks.ts";
export {
  AGENT_STATIC_OPTIONS_DEFAULT as DEFAULT_AGENT_STATIC_OPTIONS,
  type AgentStaticOptions,
} from "../../core/agent/AgentStaticOptions.ts";
export type { RetryOptions } from "../../core/retry/RetryOptions.ts";
export type { RetryCallOptions } from "../../core/retry/retryCall.ts";
export type { AgentContext, PlatformContext } from "../../core/agent/AgentContext.ts";
export {
  AgentStorage,
  SqlCursor,
  type SqlColumnValue,
  type SqlParameter,
  type SqlRow,
} from "../../core/database/AgentStorage.ts";
export type { AgentKv, ListOptions } from "../../core/database/AgentKv.ts";
export type { SqlValue } from "../../core/database/Databases.ts";
export type { AgentInstanceId } from "../../core/namespace/instanceId.ts";
export type { LogShape } from "../../core/telemetry/Log.ts";
export {
  AgentNamespace,
  getAgentByName,
  type PlatformNamespace,
  type StubOptions,
} from "../../core/namespace/AgentNamespace.ts";
export { withKey } from "../../core/namespace/makeStub.ts";
export { query, QueryRefused, type QueryOptions } from "../../core/namespace/queryAgents.ts";
export type { AgentInstanceId as AgentNamespaceId } from "../../core/namespace/instanceId.ts";
export type { AgentStub } from "../../core/namespace/AgentStub.ts";
export {
  callable,
  callable as unstable_callable,
  type CallableMetadata,
} from "../../core/agent/callable.ts";
export { CallKeyTaken } from "../../core/call/durableCall.ts";
export {
  Connection,
  type ConnectionMessage,
  type ConnectionMessage as WSMessage,
} from "../../core/connection/Connection.ts";
export {
  AgentDestroyed,
  AgentDiscarded,
  CeilingReached,
  CommitTooLarge,
  ConnectionFailed,
  JournalRateExceeded,
  ReadonlyConnection,
  SqlError,
  StateTooLarge,
  TurnTimedOut,
} from "../../core/errors/errors.ts";
export type {
  Approval,
  ApprovalCriteria,
  ApprovalDecision,
  ApprovalGrant,
  ApprovalLinkOptions,
  ApprovalQuestion,
  ApprovalStatus,
  AskedApproval,
  WorkflowAnswerOptions,
} from "../../core/approval/Approval.ts";
export {
  ApprovalClosed,
  ApprovalNotDurable,
  ApprovalRejected,
  ApprovalTimedOut,
} from "../../core/approval/approvalErrors.ts";
export type { FetchOptions, Step, StepOptions } from "../../core/step/Step.ts";
export {
  StepNotDurable,
  StepTimedOut,
  StepTooLarge,
  StepWrites,
} from "../../core/step/stepErrors.ts";
export { MessageType } from "../../core/connection/protocol.ts";
export { StreamingResponse } from "../../core/agent/StreamingResponse.ts";
export {
  type FetchContext,
  type RouteHook,
  type RouteOptions,
} from "../../core/namespace/routeAgentRequest.ts";
export { routeAgentRequest } from "../platform/routeAgentRequest.ts";
export {
  routeAgentEmail,
  UnknownAgentNamespace,
  type BuiltEmail,
  type EmailRouteOptions,
} from "../../core/namespace/routeAgentEmail.ts";
export { createHeaderBasedEmailResolver } from "../../core/mail/EmailResolver.ts";
export type { AgentEmail, RawEmail } from "../../core/mail/AgentEmail.ts";
export { EmailFailed, EmailRefused, type SentEmail } from "../../core/mail/EmailBinding.ts";
export type { ReplyOptions } from "../../core/mail/composeReply.ts";
export type { SendEmailOptions, SendsEmail } from "../../core/mail/SendEmailOptions.ts";
export {
  OutgoingWebhookFailed,
  OutgoingWebhookRefused,
  type SendWebhookOptions,
} from "../../core/outgoing/OutgoingWebhook.ts";
export { McpRequestFailed } from "../../core/mcp/McpClients.ts";
export type { MCPClientManager } from "../../core/mcp/MCPClientManager.ts";
export type { McpServersState, McpServersState as MCPServersState } from "../../core/mcp/McpOffers.ts"; // prettier-ignore
export { MCP_SERVER_ID_MAX_LENGTH, normalizeServerId } from "../../core/mcp/normalizeServerId.ts";
export { StoredOAuthProvider, type OAuthProvider } from "../../core/mcp/OAuthProvider.ts";
export type { AddMcpServerOptions, AddMcpServerResult } from "../../core/mcp/McpServerOptions.ts";
export type {
  DeleteFibersOptions,
  FiberContext,
  FiberFunction,
  FiberInspection,
  FiberRecoveryContext,
  FiberRecoveryResult,
  FiberStatus,
  ListFibersOptions,
  StartFiberOptions,
  StartFiberResult,
} from "../../core/fiber/Fiber.ts";
export type {
  DurableStream,
  DurableStreamOptions,
  StreamResponseOptions,
} from "../../core/stream/DurableStream.ts";
export {
  BudgetExceeded,
  type BudgetInfo,
  type BudgetPeriod,
  type Spend,
  type SpendOptions,
} from "../../core/budget/Budget.ts";
export { StreamOver, StreamTooLarge, TooManyStreams } from "../../core/stream/errors.ts";
export type { DynamicAgents, SubAgentClass, SubAgentStub } from "../../core/subAgent/SubAgents.ts";
export type { SubAgentInfo } from "../../core/subAgent/SubAgentTable.ts";
export {
  buildAgentPath,
  buildAgentUrl,
  parseSubAgentPath,
  SUB_PREFIX,
  type BuildAgentPathOptions,
  type SubAgentPathMatch,
} from "../../core/namespace/subAgentPaths.ts";
export { getSubAgentByName, routeSubAgentRequest } from "../../core/subAgent/subAgentRequests.ts";
export type { AgentPathStep } from "../../schemas/AgentPath.ts";
export type { QueueOptions } from "../../core/queue/QueueOptions.ts";
export type { QueueItem } from "../../core/queue/QueueTable.ts";
export type { NaturalSchedule } from "../../core/schedule/naturalSchedule.ts";
export type {
  Misfire,
  Schedule,
  ScheduleCriteria,
  ScheduleOptions,
  ScheduleSettings,
  ScheduleType,
} from "../../core/schedule/Schedule.ts";
export {
  isDurableObjectCodeUpdateReset,
  isDurableObjectMemoryLimitReset,
  isDurableObjectStorageReset,
  isPlatformTransientError,
} from "../../core/errors/platformErrors.ts";
export { AgentUnreachable } from "../../core/call/AgentUnreachable.ts";
export { camelCaseToKebabCase, InvalidAddress } from "../../schemas/Address.ts";
export { getCurrentAgent, type CurrentAgent } from "../node/getCurrentAgent.ts";
export type { CurrentWebhook } from "../../core/input/webhookOf.ts";
