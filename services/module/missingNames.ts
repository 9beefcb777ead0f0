/**
 * What a module written for the reference package may import: the reference's entries, the names
 * that exist at run time in the entries that both packages have, and replacements for those that
 * this package lacks. Data only, read by `explainMissingImport`. A test compares it with the
 * published package. A name that is added to this package later needs no change here, since only
 * failed imports are looked up.
 */

/** The published version that the lists were read from. */
export const REFERENCE_VERSION = "0.32.0";

/** Names by entry, for each entry that both packages have. */
export const REFERENCE_NAMES: Readonly<Record<string, ReadonlyArray<string>>> = {
  agents:
    "AGENT_TOOL_MILESTONE_PART AGENT_TOOL_PROGRESS_PART Agent DEFAULT_AGENT_STATIC_OPTIONS DurableObjectOAuthClientProvider MCP_SERVER_ID_MAX_LENGTH MessageType SUB_PREFIX SqlError StreamingResponse __DO_NOT_USE_WILL_BREAK__agentContext __DO_NOT_USE_WILL_BREAK__withInvocationScope buildAgentPath buildAgentUrl callable camelCaseToKebabCase createHeaderBasedEmailResolver getAgentByName getCurrentAgent getSubAgentByName isDurableObjectCodeUpdateReset isDurableObjectMemoryLimitReset isDurableObjectStorageReset isPlatformTransientError normalizeServerId parseSubAgentPath routeAgentEmail routeAgentRequest routeSubAgentRequest unstable_callable".split(
      " ",
    ),
  "agents/client":
    "AgentClient AgentConnectionError DEFAULT_CALL_TIMEOUT_MS NativeCallQueue agentFetch createCloseClassifier createStubProxy isTerminalCloseEvent nativeCall splitCallOptions".split(
      " ",
    ),
  "agents/react": ["_testUtils", "useAgent", "useAgentToolEvents"],
  "agents/schedule": [
    "getSchedulePrompt",
    "scheduleSchema",
    "unstable_getSchedulePrompt",
    "unstable_scheduleSchema",
  ],
  "agents/email":
    "DEFAULT_MAX_AGE_SECONDS createAddressBasedEmailResolver createCatchAllEmailResolver createHeaderBasedEmailResolver createSecureReplyEmailResolver isAutoReplyEmail signAgentHeaders".split(
      " ",
    ),
  "agents/observability": [
    "channels",
    "experimental_registerOpenTelemetry",
    "genericObservability",
    "subscribe",
  ],
  "agents/vite": ["default"],
  "agents/workflows": ["AgentWorkflow", "WorkflowRejectedError"],
  "agents/mcp":
    "DurableObjectEventStore ElicitRequestSchema MCP_SERVER_ID_MAX_LENGTH McpAgent RPCClientTransport RPCServerTransport RPC_DO_PREFIX SSEEdgeClientTransport StreamableHTTPEdgeClientTransport WorkerTransport createLegacyMcpHandler createMcpHandler experimental_createMcpHandler getMcpAuthContext normalizeServerId".split(
      " ",
    ),
  "agents/mcp/server": ["createMcpHandler", "getMcpAuthContext"],
  "agents/lifecycle": ["Lifecycle", "LifecycleCapability", "getCurrentAgent"],
  "agents/mcp/client":
    "MCPClientManager MCP_SERVER_ID_MAX_LENGTH RPCClientTransport RPC_DO_PREFIX getNamespacedData normalizeServerId".split(
      " ",
    ),
};

/** Every entry of the reference but `.`, in its package's order. */
export const REFERENCE_ENTRIES: ReadonlyArray<string> =
  "types client routing streams context sessions tasks lifecycle harness/ai-sdk harness/opencode harness/pi harness/think harness/container harness/container/daemon harness/container/runtime harness/store agent-tools codemode/ai mcp mcp/client mcp/server mcp/do-oauth-client-provider observability models/ai-sdk models/opencode models/pi-ai observability/ai react websockets state schedule queue schedules schedules/parser workflows experimental/webmcp x402 chat chat/transport chat/react chat-sdk ai-chat-agent ai-chat-v5-migration ai-react ai-types email browser browser/ai browser/ai-sdk browser/tanstack-ai websearch websearch/pi websearch/ai-sdk websearch/tanstack-ai browser/pi webfetch webfetch/pi webfetch/ai-sdk webfetch/tanstack-ai voice voice/types voice/client voice/react voice/errors voice/workers-ai voice/sfu voice/text experimental/channels experimental/channels/email experimental/channels/slack experimental/channels/telegram experimental/channels/web experimental/channels/web/client experimental/channels/web/ai-sdk tsconfig vite skills skills/tools/ai-sdk skills/runner".split(
    " ",
  );

const STREAMING = "a method marked @callable({ streaming: true }) and an AI library of your choice";

/** What to use here instead of a name or an entry. For entries, the longest prefix applies. */
export const INSTEAD: Readonly<Record<string, string>> = {
  experimental_registerOpenTelemetry: 'subscribe(key, callback) from "agents/observability"',
  NativeCallQueue: "AgentClient.call",
  nativeCall: "AgentClient.call",
  splitCallOptions: "AgentClient.call",
  createCloseClassifier: 'isTerminalCloseEvent from "agents/client"',
  RPCClientTransport: "addMcpServer with the URL of a route that serve makes",
  RPCServerTransport: "McpAgent.serve",
  RPC_DO_PREFIX: "McpAgent.serve",
  getNamespacedData: "getMcpServers of Agent",
  DurableObjectOAuthClientProvider: 'StoredOAuthProvider from "agents"',
  LifecycleCapability: "a class that implements DurableObjectCapability",
  "agents/types": 'MessageType from "agents"',
  "agents/routing": 'routeAgentRequest and getAgentByName from "agents"',
  "agents/streams": STREAMING,
  "agents/schedules": "this.schedule and its methods",
  "agents/schedules/parser": '"agents/schedule"',
  "agents/queue": "this.queue and its methods",
  "agents/state": "this.state and this.setState",
  "agents/websockets": "onConnect, onMessage, onClose and getConnections of Agent",
  "agents/tasks": "this.queue, or a workflow",
  "agents/chat": STREAMING,
  "agents/ai-chat-agent": STREAMING,
  "agents/ai-react": 'useAgent from "agents/react"',
  "agents/experimental/channels": "a declared webhook route of the provider",
  "agents/experimental/channels/email": '"agents/email"',
};

/** What to use here instead of a module of the platform, or of a name of `cloudflare:workers`. */
export const PLATFORM_INSTEAD: Readonly<Record<string, string>> = {
  withEnv: "the env that handlers and agents receive",
  "cloudflare:sockets": '"node:net"',
  "cloudflare:test": '"agents/testing"',
};
