/**
 * What an agent's API stands on: the seam between the `Agent` class that users extend and the
 * runtime that keeps it (`core/turn/ActiveAgent`). Reached through the `AgentContext` that an agent
 * is constructed with, so that users' classes need no more than `constructor(ctx, env)`.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";
import type { WorkflowSignal } from "../../schemas/WorkflowSignal.ts";
import type { SqlResult, SqlValue } from "../database/Databases.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { MailDraft } from "../mail/composeMail.ts";
import type { SendWebhookOptions } from "../outgoing/OutgoingWebhook.ts";
import type { QueueItem } from "../queue/QueueTable.ts";
import type { ScheduleCall } from "../schedule/Schedule.ts";
import type { ScheduleRow, ScheduleTable } from "../schedule/ScheduleTable.ts";
import type { TimeShape } from "../time/Time.ts";
import type { RetryOptions } from "./Agent.ts";
import type { Observability } from "../telemetry/observability.ts";
import type { Connection, ConnectionMessage } from "./Connection.ts";
import type { MCPClientManager } from "../mcp/MCPClientManager.ts";
import type { WorkflowBinding } from "../workflow/WorkflowBinding.ts";

/** `core/schedule/Scheduler`, as the API uses it. */
export interface SchedulesOfAgent {
  readonly add: (call: ScheduleCall) => ScheduleRow;
  readonly cancel: (id: string) => boolean;
  readonly table: Pick<ScheduleTable, "get" | "all">;
}

/** `core/queue/QueueLane`, as the API uses it. */
export interface QueueOfAgent {
  readonly push: (
    callback: string,
    payload: unknown,
    options: { readonly retry?: RetryOptions; readonly id?: string },
  ) => string;
  readonly remove: (where: "id = ?" | "callback = ?" | "1", value?: string) => number;
  readonly get: (id: string) => QueueItem | undefined;
  /** How often this item was journaled as begun: not 0 when a host may have died of it. */
  readonly begun: (id: string) => number;
  readonly matching: (key: string, value: unknown) => ReadonlyArray<QueueItem>;
}

/** `core/workflow/SignalLane`, as the API uses it. */
export interface SignalsOfAgent {
  readonly binding: (name: string) => WorkflowBinding | undefined;
  readonly send: (to: AgentId, key: string, signal: WorkflowSignal) => void;
  readonly sendNow: (to: AgentId, signal: WorkflowSignal) => Promise<void>;
}

/** `core/mail/MailLane`, as the API uses it. */
export interface MailOfAgent {
  /** Throws `EmailRefused` where no relay is set. */
  readonly assertReady: () => void;
  /** Queues it; the Message-ID. */
  readonly send: (draft: MailDraft, retry?: RetryOptions) => string;
}

export interface AgentRuntime {
  readonly id: AgentId;
  readonly log: LogShape;
  readonly time: TimeShape;
  readonly observability: Observability;
  readonly emit: (type: string, payload: Readonly<Record<string, unknown>>) => void;
  readonly scheduler: SchedulesOfAgent;
  readonly queue: QueueOfAgent;
  /** The live state: `undefined` when never set. */
  readonly state: unknown;
  readonly hasState: boolean;
  /** Validated by the caller. Persists, broadcasts (not to `except`), publishes, then `changed` runs. */
  readonly writeState: (
    next: unknown,
    options: {
      readonly except?: Connection | undefined;
      readonly isInitial?: boolean;
      readonly changed: () => void;
    },
  ) => void;
  /** Records the write, runs it. Throws SQLite's own error. `isLimited`: it is users' SQL, and may be refused by `WriteLimits`. */
  readonly query: (
    sql: string,
    params: ReadonlyArray<SqlValue | boolean>,
    isLimited?: boolean,
  ) => SqlResult;
  readonly transaction: <A>(f: () => A) => A;
  readonly connections: () => Iterable<Connection>;
  readonly broadcast: (message: ConnectionMessage, except: ReadonlyArray<string>) => void;
  /** The connection in whose context the code runs, if it runs in one of this agent. */
  readonly currentConnection: () => Connection | undefined;
  /** The URL of the request or connection in whose context the code runs. */
  readonly currentUrl: () => string | undefined;
  /** Runs `f` apart from the turn that runs now: what it writes, then and later, is written in no input's name. */
  readonly inBackground: <A>(f: () => A, cause?: Cause) => A;
  /** Of the turn that runs now, if it is one of this agent. */
  readonly currentCause: () => Cause | undefined;
  /** Runs `f` as a turn of its own, which is no durable input. Settles as `f` does. */
  readonly asTurn: <A>(cause: Cause, f: () => Promise<A>) => Promise<A>;
  /** Signals to workflow instances, and from them to agents. */
  readonly signals: SignalsOfAgent;
  /** The agent's MCP servers; made when first asked for. */
  readonly mcp: MCPClientManager;
  /** Runs `f` once everything written so far is stored; its failure goes to `onError`. */
  readonly afterCommit: (f: () => unknown) => void;
  /** Resolves when everything written so far is stored. */
  readonly flush: () => Promise<void>;
  /** Asks for an outgoing webhook; its idempotency key. Throws what makes it impossible. */
  readonly sendWebhook: (url: string | URL, body: unknown, options: SendWebhookOptions) => string;
  readonly mail: MailOfAgent;
  /** Fires when the agent leaves memory. */
  readonly leaving: AbortSignal;
  /** Keeps the agent from hibernating until the function it gives is called. */
  readonly keepAlive: () => () => void;
  /** Ends this life of the agent. Resolves when that is stored. */
  readonly destroy: () => Promise<void>;
  /** Keeps the agent in memory until the promise settles; a rejection is logged. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
  /** Holds every other turn back until `f` has settled. */
  readonly blockConcurrencyWhile: <A>(f: () => Promise<A>) => Promise<A>;
  /** Tells the gateway about a change of a connection's state or flags. */
  readonly attach: (connection: Connection) => void;
  /** Drops the agent from memory without committing what is pending. */
  readonly abort: (reason: string) => void;
}
