/**
 * The seam between the `Agent` class that users extend and the runtime that runs it
 * (`core/runtime/ActiveAgent`). Each domain declares its own part; this is their sum.
 * `RuntimeContext` leads to it from the context that an agent is constructed with, so that users'
 * classes need no more than `constructor(ctx, env)`.
 */
import type { Connection, ConnectionMessage } from "../connection/Connection.ts";
import type { OpenTransaction } from "../database/Databases.ts";
import type { OutgoingLane } from "../outgoing/OutgoingLane.ts";
import type { QueueLane } from "../queue/QueueLane.ts";
import type { Observability } from "../telemetry/observability.ts";
import type { Block, BlockCode } from "../turn/ConcurrencyBlock.ts";
import type { StateWrite } from "../turn/LiveState.ts";
import type { SignalLane } from "../workflow/SignalLane.ts";
import type { AgentApis, ApisAgent } from "./AgentApis.ts";

/** The live state, as `Agent` reads and writes it. */
export interface StateRuntime {
  /** `undefined` when never set. */
  readonly state: unknown;
  readonly hasState: boolean;
  /**
   * Persists the state, sends it to the clients (not to `except`), publishes it, and then calls
   * `changed`. The caller has validated it.
   */
  writeState(next: unknown, options: StateWrite): void;
}

/** The agent's sockets, as `Agent` uses them. */
interface SocketsRuntime {
  connections(): Iterable<Connection>;
  broadcast(message: ConnectionMessage, except: ReadonlyArray<string>): void;
  /** The connection in whose context the code runs, if it is one of this agent's. */
  currentConnection(): Connection | undefined;
  /** Sends a change of a connection's state or flags to its gateway. */
  attach(connection: Connection): void;
  readonly sockets: {
    /** For a Durable Object: events of it run for longer, or no longer. */
    working(is: boolean): void;
  };
}

export interface AgentRuntime extends Omit<ApisAgent, "signals">, StateRuntime, SocketsRuntime {
  /** What the methods of `Agent` delegate to. */
  readonly apis: AgentApis;
  /** Records that a call of the API has rejected. Its turn waits until it is handled or not. */
  rejects(): void;
  /** The agent's own sink of observability events, unless its class sets another. */
  readonly observability: Observability;
  readonly queue: Pick<QueueLane, "push" | "remove" | "get" | "begun" | "matching">;
  /** Signals to workflow instances, and from them to agents. */
  readonly signals: Pick<SignalLane, "binding" | "send" | "sendNow">;
  readonly outgoing: Pick<OutgoingLane, "send">;
  /** Ends this life of the agent. Resolves when that is stored. */
  destroy(): Promise<void>;
  /** What the running code is part of. */
  readonly code: BlockCode;
  /**
   * Begins a transaction that outlasts the call and is the block. It includes everything written
   * until its end. If other code uses the database meanwhile, a rollback discards the agent.
   */
  beginTransaction(block: Block): OpenTransaction;
  /** Blocks all other turns until `f` settles. */
  blockConcurrencyWhile<A>(f: () => Promise<A>): Promise<A>;
}
