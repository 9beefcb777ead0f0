/**
 * Gives a class that extends `DurableObject` the hooks of an agent: `onStart`, `onRequest`,
 * `onAlarm`, `onConnect`, `onMessage`, `onClose`, `onError`; and runs the parts that it is composed
 * of (`DurableObjectCapability`). The class holds one as a field, which becomes its `fetch`, its
 * `alarm` and its handlers of sockets.
 *
 * 1. The parts and then the object start before the first event, which waits, as do others. A start
 *    that fails fails its event, and the next event starts again.
 * 2. A handler that the class has itself stays: it calls the lifecycle's where it wants to.
 * 3. What a hook throws fails its event, as in any Durable Object, and is logged by the host.
 */
import type { ObjectState } from "../../core/durableObject/ObjectState.ts";
import type { ObjectSocket } from "../../core/socket/ObjectSocket.ts";
import { isUpgrade } from "../../core/socket/upgradeRequest.ts";
import { WebSocketPair } from "../platform/socketGlobals.ts";
import type { DurableObjectCapability } from "./DurableObjectCapability.ts";
import { acceptConnection, connectionOf, type Connection, type ConnectionContext, type WSMessage } from "./ManagedConnection.ts"; // prettier-ignore

/** The hooks that the object's class may have. */
export interface LifecycleHost<Props extends object = object> {
  /** Before the first event, each time the object comes to memory. */
  onStart?(props?: Props): void | Promise<void>;
  /** Answers an HTTP request that no part has answered. Without it: 404. */
  onRequest?(request: Request): Response | Promise<Response>;
  /** For each alarm, after those of the parts. */
  onAlarm?(): void | Promise<void>;
  /** The connection is accepted, and opens once this returns. */
  onConnect?(connection: Connection, context: ConnectionContext): void | Promise<void>;
  /** A message of a connection. */
  onMessage?(connection: Connection, message: WSMessage): void | Promise<void>;
  /** A connection has closed, by either side. */
  onClose?(connection: Connection, code: number, reason: string, wasClean: boolean): void | Promise<void>; // prettier-ignore
  /** A connection broke; its close follows. */
  onError?(connection: Connection, error: unknown): void | Promise<void>;
  /** Further tags of a connection, at most 9. */
  getConnectionTags?(connection: Connection, context: ConnectionContext): string[] | Promise<string[]>; // prettier-ignore
}

const HANDLERS = ["fetch", "alarm", "webSocketMessage", "webSocketClose", "webSocketError"] as const; // prettier-ignore

/** "Internal error" (RFC 6455): a message can't be sent. */
const CLOSE_FAILED = 1011;

/** The hooks and parts of one Durable Object. */
export class Lifecycle<
  _Env extends object = object,
  Props extends Record<string, unknown> = Record<string, unknown>,
> {
  readonly #host: LifecycleHost<Props> & { readonly constructor: { readonly name: string } };
  readonly #ctx: ObjectState;
  readonly #capabilities: Array<DurableObjectCapability<Props>> = [];
  #installed = false;
  #props: Props | undefined;
  #start: Promise<void> | undefined;

  /** A lifecycle whose handlers are those of `host`: in a field, `Lifecycle.install(this)`. */
  static install<
    Env extends object = object,
    Props extends Record<string, unknown> = Record<string, unknown>,
  >(host: object): Lifecycle<Env, Props> {
    const lifecycle = new Lifecycle<Env, Props>(host);
    lifecycle.installHandlers();
    return lifecycle;
  }

  /** `host`: the Durable Object. Its handlers are not changed before `installHandlers()`. */
  constructor(host: object) {
    this.#host = host as LifecycleHost<Props>;
    this.#ctx = (host as { readonly ctx: ObjectState }).ctx;
  }

  /** Makes the handlers those of the object. Throws the second time. */
  installHandlers(): void {
    if (this.#installed)
      throw new Error("The handlers of this lifecycle are installed: call installHandlers() once");
    this.#installed = true;
    for (const name of HANDLERS) {
      if (name in this.#host) continue; // Rule 2.
      const value = (this[name] as (...args: unknown[]) => unknown).bind(this);
      Object.defineProperty(this.#host, name, { value, configurable: true });
    }
  }

  /** Adds a part. Returns the lifecycle. Throws once the object has started. */
  use(capability: DurableObjectCapability<Props>): this {
    if (this.#start !== undefined)
      throw new Error("The object has started: add capabilities in its constructor");
    this.#capabilities.push(capability);
    return this;
  }

  /** The object's name. Throws for an object that was addressed by an id without one. */
  get name(): string {
    const { name } = this.#ctx.id;
    if (name !== undefined) return name;
    throw new Error(
      `This ${this.#host.constructor.name} has no name: address it with getByName() or idFromName()`,
    );
  }

  /**
   * Starts the parts and the object, once. Events do so by themselves; a method that others call
   * has to. Rejects with what a hook threw.
   */
  start(props?: Props): Promise<void> {
    if (props !== undefined) this.#props = props;
    return (this.#start ??= this.#begin());
  }

  async #begin(): Promise<void> {
    void this.name; // An object without one does not start.
    let failure: { readonly error: unknown } | undefined;
    await this.#ctx.blockConcurrencyWhile(async () => {
      try {
        const props = this.#props;
        for (const capability of this.#capabilities) await capability.onStart?.({ props });
        await this.#host.onStart?.(props);
      } catch (error) {
        // Thrown in here, it would discard the object.
        failure = { error };
      }
    });
    if (failure === undefined) return;
    this.#start = undefined;
    throw failure.error;
  }

  /** Answers a request, or connects the socket that it asks for. */
  async fetch(request: Request): Promise<Response> {
    await this.start();
    if (isUpgrade(request)) return this.#connect(request);
    for (const capability of this.#capabilities) {
      const response = await capability.onRequest?.({ request });
      if (response !== undefined) return response;
    }
    return (
      (await this.#host.onRequest?.(request)) ?? new Response("Not implemented", { status: 404 })
    );
  }

  async #connect(request: Request): Promise<Response> {
    const { 0: webSocket, 1: server } = new WebSocketPair();
    const context = { request };
    const connection = await acceptConnection(
      this.#ctx,
      server,
      request.url,
      (made) => this.#host.getConnectionTags?.(made, context) ?? [],
    );
    await this.#host.onConnect?.(connection, context);
    return new Response(null, { status: 101, webSocket } as ResponseInit);
  }

  /** The handler of the object's alarm. */
  async alarm(): Promise<void> {
    await this.start();
    for (const capability of this.#capabilities) await capability.onAlarm?.();
    await this.#host.onAlarm?.();
  }

  /** The handler of a socket's message. */
  webSocketMessage(socket: ObjectSocket, message: WSMessage): Promise<void> {
    return this.#onSocket(socket, (connection) => this.#host.onMessage?.(connection, message));
  }

  /** The handler of a socket's close. */
  webSocketClose(
    socket: ObjectSocket,
    code: number,
    reason: string,
    wasClean: boolean,
  ): Promise<void> {
    return this.#onSocket(socket, (connection) =>
      this.#host.onClose?.(connection, code, reason, wasClean),
    );
  }

  /** The handler of a socket's error. */
  webSocketError(socket: ObjectSocket, error: unknown): Promise<void> {
    return this.#onSocket(socket, (connection) => this.#host.onError?.(connection, error));
  }

  /** Sockets that other code has accepted have no hooks. */
  async #onSocket(
    socket: ObjectSocket,
    hook: (connection: Connection) => void | Promise<void>,
  ): Promise<void> {
    const connection = connectionOf(socket);
    if (connection === undefined) return;
    await this.start();
    await hook(connection);
  }

  /** Sends to every connection, but those with these ids. One that can't be sent to is closed. */
  broadcast(message: WSMessage, without: ReadonlyArray<string> = []): void {
    for (const connection of this.getConnections()) {
      if (without.includes(connection.id)) continue;
      try {
        connection.send(message);
      } catch {
        connection.close(CLOSE_FAILED, "Unexpected error");
      }
    }
  }

  /** The connection with this id; undefined without one. Throws where several have it. */
  getConnection<T = unknown>(id: string): Connection<T> | undefined {
    const [found, another] = [...this.getConnections<T>(id)].filter((each) => each.id === id);
    if (another === undefined) return found;
    throw new Error(`Several connections have the id ${id}: use getConnections("${id}")`);
  }

  /** The open connections: all, or those with this tag. */
  getConnections<T = unknown>(tag?: string): Iterable<Connection<T>> {
    return this.#ctx
      .getWebSockets(tag)
      .filter(({ readyState }) => readyState === 1) // OPEN
      .map(connectionOf)
      .filter((connection) => connection !== undefined) as Array<Connection<T>>;
  }

  /** Runs SQL on the object's database; each `${value}` is bound. Returns the rows as objects. */
  sql<Row = Record<string, string | number | boolean | null>>(
    strings: TemplateStringsArray,
    ...values: Array<string | number | boolean | null>
  ): Row[] {
    return [...this.#ctx.storage.sql.exec<Row>(strings.join("?"), ...values)];
  }
}
