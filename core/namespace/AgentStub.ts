/**
 * The type of a stub: the public methods of an agent's class as async functions, without those of
 * the base class. `AgentNamespace` makes stubs.
 *
 * The base class's members are listed here by name, because its own methods return stubs: `keyof
 * Agent` would import the class that imports this. `test/types` holds the list against the class.
 */
import type { AgentInstanceId } from "./instanceId.ts";

/** Every named member of `Agent`. */
export type AgentMember =
  | "__DURABLE_OBJECT_BRAND"
  | "_checkFibers"
  | "_expireKept"
  | "abortSubAgent"
  | "addMcpServer"
  | "approval"
  | "approvalLink"
  | "approveWorkflow"
  | "broadcast"
  | "cancelFiber"
  | "cancelFiberByKey"
  | "cancelSchedule"
  | "createMcpOAuthProvider"
  | "ctx"
  | "decideApproval"
  | "deleteFibers"
  | "deleteSubAgent"
  | "deleteWorkflow"
  | "deleteWorkflows"
  | "dequeue"
  | "dequeueAll"
  | "dequeueAllByCallback"
  | "destroy"
  | "dynamicAgents"
  | "env"
  | "fetch"
  | "getApprovals"
  | "getBudgets"
  | "getCallableMethods"
  | "getConnection"
  | "getConnectionTags"
  | "getConnections"
  | "getMcpServers"
  | "getQueue"
  | "getQueues"
  | "getSchedule"
  | "getScheduleById"
  | "getSchedules"
  | "getWorkflow"
  | "getWorkflowStatus"
  | "getWorkflows"
  | "hasSubAgent"
  | "initialState"
  | "inspectFiber"
  | "inspectFiberByKey"
  | "isConnectionProtocolEnabled"
  | "isConnectionReadonly"
  | "keepAlive"
  | "keepAliveWhile"
  | "listFibers"
  | "listSchedules"
  | "listSubAgents"
  | "log"
  | "mcp"
  | "migrateWorkflowBinding"
  | "name"
  | "observability"
  | "onBeforeSubAgent"
  | "onClose"
  | "onConnect"
  | "onEmail"
  | "onError"
  | "onFiberRecovered"
  | "onMessage"
  | "onRequest"
  | "onStart"
  | "onStateChanged"
  | "onStateUpdate"
  | "onWorkflowCallback"
  | "onWorkflowComplete"
  | "onWorkflowError"
  | "onWorkflowEvent"
  | "onWorkflowProgress"
  | "parentAgent"
  | "parentPath"
  | "pauseWorkflow"
  | "queue"
  | "rejectWorkflow"
  | "removeMcpServer"
  | "replyToEmail"
  | "resolveFiber"
  | "restartWorkflow"
  | "resumeWorkflow"
  | "retry"
  | "runFiber"
  | "runWorkflow"
  | "schedule"
  | "scheduleEvery"
  | "scheduleFrom"
  | "selfPath"
  | "sendEmail"
  | "sendWebhook"
  | "sendWorkflowEvent"
  | "setConnectionReadonly"
  | "setState"
  | "shouldConnectionBeReadonly"
  | "shouldConnectionReadStream"
  | "shouldSendProtocolMessages"
  | "spend"
  | "sql"
  | "step"
  | "startFiber"
  | "stash"
  | "state"
  | "stream"
  | "subAgent"
  | "terminateWorkflow"
  | "validateStateChange";

/** Methods of the base class that a stub may call: those that make sense from outside. */
export type PublicOfBase = "setState" | "broadcast" | "destroy" | "getApprovals" | "decideApproval";

/**
 * A handle on one agent: `fetch`, and every public method of its class as an async function.
 * Arguments and results are JSON (`core/call/wireValue`); what a method throws arrives with name,
 * message and cause.
 */
export type AgentStub<A = unknown> = {
  readonly name: string;
  readonly id: AgentInstanceId;
  fetch(request: Request | string | URL, init?: RequestInit): Promise<Response>;
} & {
  readonly [
    K in Exclude<keyof A, Exclude<AgentMember, PublicOfBase> | "fetch" | symbol> as A[K] extends (
      ...args: never[]
    ) => unknown
      ? K
      : never
  ]: A[K] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};
