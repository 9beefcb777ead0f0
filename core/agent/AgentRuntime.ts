/**
 * What an agent's API stands on: the seam between the `Agent` class that users extend and the
 * runtime that keeps it (`core/runtime/ActiveAgent`). Each domain declares its own part; this is
 * their sum. Reached through the `AgentContext` that an agent is constructed with, so that users'
 * classes need no more than `constructor(ctx, env)`.
 */
import type { Connection, ConnectionMessage } from "../connection/Connection.ts";
import type { FiberRuntime } from "../fiber/Fibers.ts";
import type { MCPClientManager } from "../mcp/MCPClientManager.ts";
import type { MailLane } from "../outgoing/MailLane.ts";
import type { SendWebhookOptions } from "../outgoing/OutgoingWebhook.ts";
import type { QueueLane } from "../queue/QueueLane.ts";
import type { Observability } from "../telemetry/observability.ts";
import type { StateWrite } from "../turn/LiveState.ts";
import type { SignalLane } from "../workflow/SignalLane.ts";
import type { AgentSteps } from "../step/AgentSteps.ts";

/** The live state, as `Agent` reads and writes it. */
export interface StateRuntime {
  /** `undefined` when never set. */
  readonly state: unknown;
  readonly hasState: boolean;
  /**
   * Validated by the caller. Persists, broadcasts (not to `except`), publishes, then `changed`
   * runs.
   */
  writeState(next: unknown, options: StateWrite): void;
}

/** The agent's sockets, as `Agent` uses them. */
export interface SocketsRuntime {
  connections(): Iterable<Connection>;
  broadcast(message: ConnectionMessage, except: ReadonlyArray<string>): void;
  /** The connection in whose context the code runs, where that is one of this agent. */
  currentConnection(): Connection | undefined;
  /** The URL of the request or connection in whose context the code runs. */
  currentUrl(): string | undefined;
  /** Sends a change of a connection's state or flags to its gateway. */
  attach(connection: Connection): void;
}

export interface AgentRuntime extends FiberRuntime, StateRuntime, SocketsRuntime {
  /** A call of the API rejects. Its turn waits until it is known whether anything handles that. */
  rejects(): void;
  /** The agent's own sink of observability events, unless its class sets another. */
  readonly observability: Observability;
  /** Made when first asked for. */
  readonly steps: Pick<AgentSteps, "run">;
  readonly queue: Pick<QueueLane, "push" | "remove" | "get" | "begun" | "matching">;
  /** Signals to workflow instances, and from them to agents. */
  readonly signals: Pick<SignalLane, "binding" | "send" | "sendNow">;
  readonly mail: Pick<MailLane, "assertReady" | "send">;
  /** The agent's MCP servers; made when first asked for. */
  readonly mcp: MCPClientManager;
  /** Queues an outgoing webhook; its idempotency key. Throws what makes it impossible. */
  sendWebhook(url: string | URL, body: unknown, options: SendWebhookOptions): string;
  /** Ends this life of the agent. Resolves when that is stored. */
  destroy(): Promise<void>;
  /** Holds every other turn back until `f` has settled. */
  blockConcurrencyWhile<A>(f: () => Promise<A>): Promise<A>;
}
