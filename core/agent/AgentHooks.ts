/**
 * Every hook that a subclass of `Agent` can override, with its default. Errors that a hook throws
 * go to `onError`.
 */
import { Connection } from "../connection/Connection.ts";
import { ConnectionFailed } from "../errors/errors.ts";
import type { FiberRecoveryContext, FiberRecoveryResult } from "../fiber/Fiber.ts";
import type { AgentEmail } from "../mail/AgentEmail.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { AgentContext } from "./AgentContext.ts";
import { runtimeOf } from "./RuntimeContext.ts";
import {
  callWorkflowHook,
  type WorkflowCallback,
  type WorkflowCompleteCallback,
  type WorkflowErrorCallback,
  type WorkflowEventCallback,
  type WorkflowHookArgument,
  type WorkflowProgressCallback,
} from "../workflow/WorkflowCallback.ts";
import { stackOf } from "../errors/thrown.ts";

/** The origin of a state change: a client's connection, or the agent's own code. */
export type StateSource = Connection | "server";

/** The second argument of `onConnect` and of the hooks that decide about a new connection. */
export interface ConnectionContext {
  /** The upgrade request. */
  readonly request: Request;
}

/** A subclass may have a method `log`. */
const logOf = ({ ctx }: { readonly ctx: AgentContext }): LogShape => runtimeOf(ctx).log;

/** See `Agent`, which has the methods that a subclass calls. */
export abstract class AgentHooks<State, Props extends Record<string, unknown>> {
  abstract readonly ctx: AgentContext;
  /** Whether state changes of this connection are refused. */
  abstract isConnectionReadonly(connection: Connection): boolean;

  /**
   * Hook: runs first when the agent comes into memory, while its other inputs wait. `props` come
   * from the call that starts it, if any. If it throws, the input fails, and the next input starts
   * the agent again.
   */
  onStart(_props?: Props): void | Promise<void> {}

  /** Hook: answers an HTTP request. Default: 404 `Not implemented`. */
  onRequest(_request: Request): Response | Promise<Response> {
    return new Response("Not implemented", { status: 404 });
  }

  /**
   * Hook: receives a mail that was routed to this agent, in a turn of its own that is retried when
   * it throws. Without it, mail is logged and dropped.
   */
  onEmail?(email: AgentEmail): void | Promise<void>;

  /**
   * Hook: receives errors of the agent's code, with the connection where one is concerned.
   * Returning suppresses the error. Default: logs the error and rethrows it. For a
   * `ConnectionFailed`, which is the client's fault, only the message is logged.
   */
  onError(error: unknown): void | Promise<void>;
  onError(connection: Connection, error: unknown): void | Promise<void>;
  onError(first: unknown, second?: unknown): void | Promise<void> {
    const error = first instanceof Connection ? second : first;
    if (error instanceof ConnectionFailed)
      logOf(this).warn("a client's connection failed", { error: error.message });
    else logOf(this).error("an error in the agent's code", { error: stackOf(error) });
    throw error;
  }

  // State

  /**
   * Hook: checks a state before it is set. Throwing rejects the change. An async hook also rejects
   * it, since it would decide too late. Default: accepts all.
   */
  validateStateChange(_next: State, _source: StateSource): void {}
  /** Hook: the state was set, by a client or the agent; not for what the validator rejects. */
  onStateChanged(_state: State, _source: StateSource): void | Promise<void> {}
  /** @deprecated Use `onStateChanged`. */
  onStateUpdate?(state: State, source: StateSource): void | Promise<void>;

  // Connections

  /**
   * Hook: a client has connected, after the protocol's frames. When it throws and `onError` does
   * not return, the client receives an error frame and is closed with 1011.
   */
  onConnect(_connection: Connection, _ctx: ConnectionContext): void | Promise<void> {}
  /** Hook: receives a client's message that is not of the protocol. Bytes are an `ArrayBuffer`. */
  onMessage(_connection: Connection, _message: string | ArrayBuffer): void | Promise<void> {}
  /** Hook: a socket has closed. `code` is 1006 for one that was lost without a close frame. */
  onClose(
    _connection: Connection,
    _code: number,
    _reason: string,
    _wasClean: boolean,
  ): void | Promise<void> {}
  /**
   * Hook: whether a new connection is readonly. Default: true where the gateway demands it (a class
   * with signed webhooks that does not set `http: "open"`), else false.
   */
  shouldConnectionBeReadonly(connection: Connection, _ctx: ConnectionContext): boolean {
    return this.isConnectionReadonly(connection);
  }
  /**
   * Hook: whether a client may read the durable stream with this key over its socket. Called for a
   * client's request, not for a stream that a method returns. Default true.
   */
  shouldConnectionReadStream(_connection: Connection, _key: string): boolean | Promise<boolean> {
    return true;
  }
  /**
   * Hook: whether a new connection receives the protocol's frames (identity, state, MCP servers).
   * Default true.
   */
  shouldSendProtocolMessages(_connection: Connection, _ctx: ConnectionContext): boolean {
    return true;
  }
  /**
   * Hook: tags of a new connection, for `getConnections(tag)`: at most 9 besides its id, each 1 to
   * 256 characters long, else a `RangeError`. Default: none.
   */
  getConnectionTags(
    _connection: Connection,
    _ctx: ConnectionContext,
  ): ReadonlyArray<string> | Promise<ReadonlyArray<string>> {
    return [];
  }

  // Fibers, sub-agents and workflows

  /**
   * Hook: a fiber was interrupted. Called before `onStart`. The fiber can be started again from
   * `context.snapshot`. A fiber of `startFiber` takes the returned status, stays `interrupted`
   * without one, and becomes `error` when this throws. A fiber of `runFiber` is done when this
   * returns; if this throws, it is called again until the fiber is as old as
   * `fiberRecoveryMaxAgeMs`. Default: logs a warning.
   */
  onFiberRecovered({
    name,
    id,
  }: FiberRecoveryContext): Promise<void | FiberRecoveryResult> | void | FiberRecoveryResult {
    logOf(this).warn(
      "a fiber was interrupted, and nothing recovers it; override onFiberRecovered",
      {
        fiber: name,
        id,
      },
    );
  }

  /**
   * Hook: called before a request or a socket whose URL names a sub-agent reaches it. A returned
   * Response answers in its place (a socket is closed with 4000 + its status), and a returned
   * Request replaces it; otherwise it passes. Default: everything passes, and a missing sub-agent
   * is created.
   */
  onBeforeSubAgent(
    _request: Request,
    _child: { readonly className: string; readonly name: string },
  ): Request | Response | void | Promise<Request | Response | void> {}

  // A workflow hook with two or more parameters receives `(workflowName, workflowId, value)`.

  /** Hook: an instance reported progress. */
  onWorkflowProgress(
    _callback: WorkflowHookArgument<WorkflowProgressCallback<never>>,
    _workflowId: string,
    _progress: never,
  ): void | Promise<void> {}
  /** Hook: an instance completed. */
  onWorkflowComplete(
    _callback: WorkflowHookArgument<WorkflowCompleteCallback<never>>,
    _workflowId: string,
    _result: never,
  ): void | Promise<void> {}
  /** Hook: an instance failed. */
  onWorkflowError(
    _callback: WorkflowHookArgument<WorkflowErrorCallback>,
    _workflowId: string,
    _error: string,
  ): void | Promise<void> {}
  /** Hook: an instance sent an event of its own. */
  onWorkflowEvent(
    _callback: WorkflowHookArgument<WorkflowEventCallback<never>>,
    _workflowId: string,
    _event: never,
  ): void | Promise<void> {}
  /** Hook: a report of any type. Default: calls the hook of its type. */
  async onWorkflowCallback(callback: WorkflowCallback): Promise<void> {
    await callWorkflowHook(this, callback);
  }
}
