/**
 * The agent around a Durable Object: hosts the user's object, and passes it events as turns of an
 * agent. An object therefore has a journal, exactly-once webhooks, a database and sockets like an
 * agent, without a second runtime.
 *
 * 1. The user's object is not an agent and may use any name. `core/runtime` asks the actor for the
 *    object's methods, passes every frame on as it is, and no URL names a sub-agent of it. Its
 *    facets are sub-agents to the runtime (`ObjectFacets`).
 * 2. Every event passes `EventOrder`, on top of the order of turns.
 * 3. The alarm is one schedule. Setting or deleting it in its own handler replaces the running one,
 *    too, which is then not tried again.
 */
import { isSubAgentName } from "../../schemas/AgentPath.ts";
import { Agent } from "../agent/Agent.ts";
import type { AgentContext } from "../agent/AgentContext.ts";
import type { AgentRuntime } from "../agent/AgentRuntime.ts";
import type { AgentStaticOptions } from "../agent/AgentStaticOptions.ts";
import { methodOn, type Method } from "../agent/methods.ts";
import { runtimeOf } from "../agent/RuntimeContext.ts";
import type { Connection } from "../connection/Connection.ts";
import { failureText } from "../errors/failureText.ts";
import type { Schedule } from "../schedule/Schedule.ts";
import type { ObjectClass, ObjectHandlers } from "./DurableObject.ts";
import { EventOrder } from "./EventOrder.ts";
import { FacetTable, idOfFacet } from "./FacetTable.ts";
import { LongEvents } from "./LongEvents.ts";
import { ObjectId } from "./objectId.ts";
import { ObjectSocket } from "../socket/ObjectSocket.ts";
import { ObjectSockets } from "./ObjectSockets.ts";
import { ObjectState } from "./ObjectState.ts";
import type { ObjectAlarms } from "./ObjectStorage.ts";
import { socketOf } from "../socket/socketResponse.ts";

/** The actor's method that the alarm's schedule calls. */
const ALARM = "_alarm";
/** As on the reference's platform: the first attempt and six more, from two seconds on. */
const ALARM_RETRY = { maxAttempts: 7, baseDelayMs: 2_000, maxDelayMs: 64_000 } as const;

/** Methods of the object that other calls reach. */
const HANDLERS: ReadonlySet<string> = new Set<keyof ObjectHandlers>([
  "fetch",
  "alarm",
  "webSocketMessage",
  "webSocketClose",
  "webSocketError",
]);

const { mode, listeners } = ObjectSocket.internals;

/** The result of an upgrade request: the accepted socket, or the refusing answer. */
type Upgraded = { readonly socket: ObjectSocket } | { readonly response: Response };

export abstract class ObjectActor extends Agent {
  abstract readonly objectClass: ObjectClass;
  readonly sockets: ObjectSockets;
  readonly facetTable: FacetTable;
  readonly #runtime: AgentRuntime;
  readonly #events: EventOrder;
  readonly #long: LongEvents;
  #object: (object & ObjectHandlers) | undefined;
  /** Id of the schedule whose handler runs. */
  #runningAlarm: string | undefined;

  constructor(ctx: AgentContext, env: Record<string, unknown>) {
    super(ctx, env);
    this.#runtime = runtimeOf(ctx);
    const { time, sockets } = this.#runtime;
    this.#events = new EventOrder(time);
    this.#long = new LongEvents(time, (is) => sockets.working(is));
    this.sockets = new ObjectSockets(this.#runtime);
    this.facetTable = new FacetTable(this.#runtime);
  }

  /** `props`: of a facet, from the object's calls (`ObjectFacets`). */
  override async onStart(props?: unknown): Promise<void> {
    this.sockets.closeLost();
    const runtime = this.#runtime;
    const { facet } = (props ?? {}) as { readonly facet?: readonly [string, string] };
    const given = isSubAgentName(runtime.id.name) ? idOfFacet(runtime, facet) : undefined;
    const state = new ObjectState({
      id: new ObjectId(given ?? runtime.id),
      runtime,
      events: this.#events,
      long: this.#long,
      sockets: this.sockets,
      alarms: this.#alarms(),
      facetTable: this.facetTable,
      env: this.env as Readonly<Record<string, unknown>>,
    });
    this.#object = new this.objectClass(state, this.env as never);
    await ObjectState.started(state);
  }

  /** Rule 2. */
  #run<A>(f: () => A | Promise<A>): Promise<A> {
    return this.#events.run(() => this.#long.run(f));
  }

  override onRequest(request: Request): Promise<Response> {
    return this.#run(() => this.#fetch(request));
  }

  #fetch(request: Request): Response | Promise<Response> {
    const { fetch } = this.#handlers;
    if (typeof fetch !== "function")
      throw new TypeError(`${this.objectClass.name} has no fetch(): call its methods by name`);
    return fetch.call(this.#object, request);
  }

  /** An upgrade request: the object's `fetch` accepts it, or answers something else. */
  upgrade(request: Request): Promise<Upgraded> {
    const fetch = async (): Promise<Upgraded> => {
      const response = await this.#fetch(request);
      const client = socketOf(response);
      return client === undefined ? { response } : { socket: ObjectSocket.accepted(client) };
    };
    const socketOfResult = (result: Upgraded): ObjectSocket | undefined =>
      "socket" in result ? result.socket : undefined;
    return this.#run(() => this.sockets.whileUpgrading(fetch, socketOfResult));
  }

  /**
   * The object's method that a stub calls; undefined without one. Handlers are none, and neither
   * are functions kept in a field.
   */
  remoteMethod(name: string): Method | undefined {
    const method = HANDLERS.has(name) ? undefined : methodOn(this.#handlers, name);
    if (method === undefined || name in Object.prototype) return undefined;
    return (...args) => this.inOrder(() => method.apply(this.#object, args));
  }

  /** Rule 2, for a call that runs `f`. */
  inOrder<A>(f: () => A | Promise<A>): Promise<A> {
    return this.#run(f);
  }

  override async onMessage(connection: Connection, message: string | ArrayBuffer): Promise<void> {
    const socket = this.sockets.of(connection);
    if (socket === undefined || this.sockets.answers(socket, message)) return;
    await this.#run(() =>
      mode(socket) === "live"
        ? listeners(socket).tell({ type: "message", data: message })
        : this.#handlers.webSocketMessage?.(socket, message),
    );
  }

  override async onClose(
    connection: Connection,
    code: number,
    reason: string,
    wasClean: boolean,
  ): Promise<void> {
    const socket = this.sockets.of(connection);
    if (socket === undefined) return;
    this.sockets.drop(socket);
    await this.#run(() =>
      mode(socket) === "live"
        ? listeners(socket).tell({ type: "close", code, reason, wasClean })
        : this.#handlers.webSocketClose?.(socket, code, reason, wasClean),
    );
  }

  override onError(error: unknown): Promise<void>;
  override onError(connection: Connection, error: unknown): Promise<void>;
  override async onError(first: unknown, error?: unknown): Promise<void> {
    if (arguments.length === 1) return super.onError(first);
    const socket = this.sockets.of(first as Connection);
    if (socket === undefined) return;
    await this.#run(() =>
      mode(socket) === "live"
        ? listeners(socket).tell({ type: "error", error, message: failureText(error) })
        : this.#handlers.webSocketError?.(socket, error),
    );
  }

  // The alarm

  /** For the runtime: the alarm's schedule is due. */
  async [ALARM](_payload: unknown, { id }: Schedule): Promise<void> {
    const retryCount = (this.#runtime.currentCause()?.attempt ?? 1) - 1;
    this.#runningAlarm = id;
    try {
      await this.#run(() => this.#handlers.alarm?.({ isRetry: retryCount > 0, retryCount }));
    } finally {
      this.#runningAlarm = undefined;
    }
  }

  #alarmRows() {
    return this.#runtime.scheduler.table.all().filter(({ callback }) => callback === ALARM);
  }

  #alarms(): ObjectAlarms {
    const { scheduler } = this.#runtime;
    return {
      get: () => this.#alarmRows().find(({ id }) => id !== this.#runningAlarm)?.dueMs ?? null,
      set: (atMs) => {
        this.#runtime.assertMayWrite();
        if (atMs !== null && typeof this.#handlers.alarm !== "function")
          throw new TypeError(
            `${this.objectClass.name} has no alarm() handler, which setAlarm() requires`,
          );
        for (const { id } of this.#alarmRows()) scheduler.cancel(id);
        if (atMs === null) return;
        scheduler.add({
          callback: ALARM,
          when: { type: "scheduled", atMs },
          settings: { idempotent: false, retry: ALARM_RETRY },
          shape: "interface",
        });
      },
    };
  }

  /** Its class's prototype before its constructor has returned: it may set an alarm. */
  get #handlers(): object & ObjectHandlers {
    return this.#object ?? (this.objectClass.prototype as object & ObjectHandlers);
  }
}

/** The actor class of a class of Durable Objects, under its name. */
export function objectActor(objectClass: ObjectClass): typeof ObjectActor {
  const { options } = objectClass;
  const actor = class extends ObjectActor {
    static override options: AgentStaticOptions = { ...options };
    override readonly objectClass = objectClass;
  };
  Object.defineProperty(actor, "name", { value: objectClass.name });
  return actor;
}

/** Whether this class is the actor of a Durable Object. */
export const isObjectActor = (value: unknown): boolean =>
  typeof value === "function" && value.prototype instanceof ObjectActor;
