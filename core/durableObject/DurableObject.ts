/**
 * The base class of Durable Objects, as `cloudflare:workers` exports it. A subclass is hosted as an
 * agent is: `ObjectActor` is the agent around each of its objects. It has no members of its own but
 * the two that its constructor receives, so that a subclass may use any name.
 */
import type { AgentStaticOptions } from "../agent/AgentStaticOptions.ts";
import type { ObjectSocket } from "../socket/ObjectSocket.ts";
import type { ObjectState } from "./ObjectState.ts";

/** Static mark, by which `readModule` recognises the classes of every copy of the package. */
const OBJECT_MARK: unique symbol = Symbol.for("agents.DurableObject") as never;

/** `Env` is the type of the bindings. */
export abstract class DurableObject<Env = Record<string, unknown>> {
  static readonly [OBJECT_MARK] = true;
  /** The object's id, storage and sockets. */
  protected readonly ctx: ObjectState;
  /** The bindings and variables of the installation. */
  protected readonly env: Env;

  constructor(ctx: ObjectState, env: Env) {
    this.ctx = ctx;
    this.env = env;
  }
}

/** The argument of an alarm's handler. */
interface AlarmInfo {
  /** Whether an earlier attempt failed. */
  readonly isRetry: boolean;
  /** Number of failed attempts. */
  readonly retryCount: number;
}

/** The handlers that a class may have. */
export interface ObjectHandlers {
  fetch?(request: Request): Response | Promise<Response>;
  alarm?(info: AlarmInfo): unknown;
  webSocketMessage?(socket: ObjectSocket, message: string | ArrayBuffer): unknown;
  webSocketClose?(socket: ObjectSocket, code: number, reason: string, wasClean: boolean): unknown;
  webSocketError?(socket: ObjectSocket, error: unknown): unknown;
}

/** A class of Durable Objects: one that extends `DurableObject`, or any that a binding names. */
export type ObjectClass = (new (ctx: ObjectState, env: never) => object) & {
  readonly name: string;
  readonly options?: AgentStaticOptions;
};

/** A subclass of `DurableObject`. */
export const isObjectClass = (value: unknown): value is ObjectClass =>
  typeof value === "function" &&
  (value as { readonly [OBJECT_MARK]?: unknown })[OBJECT_MARK] === true &&
  !Object.hasOwn(value, OBJECT_MARK);
