/**
 * `ctx` of a Durable Object: its id, its storage, its sockets, and what holds events back. The
 * actor around the object makes one each time the object comes to memory.
 */
import type { AgentRuntime } from "../agent/AgentRuntime.ts";
import { messageOf } from "../errors/thrown.ts";
import type { EventOrder } from "./EventOrder.ts";
import { exportsOf } from "./exportsOf.ts";
import type { FacetTable } from "./FacetTable.ts";
import type { LongEvents } from "./LongEvents.ts";
import { ObjectBlocks } from "./ObjectBlocks.ts";
import { ObjectFacets } from "./ObjectFacets.ts";
import type { ObjectId } from "./objectId.ts";
import type { ObjectSocket } from "../socket/ObjectSocket.ts";
import type { ObjectSockets, WebSocketRequestResponsePair } from "./ObjectSockets.ts";
import { ObjectStorage, type ObjectAlarms } from "./ObjectStorage.ts";

/** What the state is made of. */
interface ObjectStateParts {
  readonly id: ObjectId;
  readonly runtime: AgentRuntime;
  readonly events: EventOrder;
  readonly long: LongEvents;
  readonly sockets: ObjectSockets;
  readonly alarms: ObjectAlarms;
  readonly facetTable: FacetTable;
  readonly env: Readonly<Record<string, unknown>>;
}

/** The context of one object, as `this.ctx`. Made by the runtime only. */
export class ObjectState {
  /** The object's id. */
  readonly id: ObjectId;
  /** The object's database, its key-value calls and its alarm. */
  readonly storage: ObjectStorage;
  /** Always empty. */
  readonly props: Readonly<Record<string, unknown>> = {};
  readonly #runtime: AgentRuntime;
  readonly #exclusive: ObjectBlocks;
  readonly #long: LongEvents;
  readonly #sockets: ObjectSockets;
  #blocks: Promise<unknown> | undefined;
  #started = false;
  #timeoutMs: number | null = null;
  readonly #facetTable: FacetTable;
  readonly #env: Readonly<Record<string, unknown>>;
  #facets: ObjectFacets | undefined;
  #exports: Readonly<Record<string, unknown>> | undefined;

  constructor({ id, runtime, events, long, sockets, alarms, facetTable, env }: ObjectStateParts) {
    this.#env = env;
    this.#facetTable = facetTable;
    this.#runtime = runtime;
    this.#long = long;
    this.#exclusive = new ObjectBlocks(runtime, events);
    this.#sockets = sockets;
    this.id = id;
    this.storage = new ObjectStorage({ runtime, blocks: this.#exclusive, alarms });
  }

  /** Objects below this one, each with its own storage. */
  get facets(): ObjectFacets {
    return (this.#facets ??= new ObjectFacets({
      id: this.id,
      env: this.#env,
      table: this.#facetTable,
      subAgents: this.#runtime.apis.subAgents,
      waitUntil: (promise) => this.waitUntil(promise),
    }));
  }

  /** The module's classes of agents, objects and workflows, by their names. */
  get exports(): Readonly<Record<string, unknown>> {
    return (this.#exports ??= exportsOf(this.#env));
  }

  /** For the actor: the constructor has returned. Settles as the blocks that it began. */
  static async started(state: ObjectState): Promise<void> {
    await state.#blocks;
    state.#started = true;
  }

  /** Keeps the object in memory until `promise` settles. A rejection is logged. */
  waitUntil(promise: Promise<unknown>): void {
    this.#runtime.waitUntil(this.#long.run(() => promise));
  }

  /**
   * Runs `f` while no event of this object begins, for at most 30 s, and no other block or
   * transaction runs. Storage calls of other events that return promises wait. A block or
   * transaction that `f` begins is part of it. Settles as `f` does. When it rejects, the object is
   * discarded from memory; in a constructor, the event that starts it fails.
   */
  blockConcurrencyWhile<A>(f: () => Promise<A>): Promise<A> {
    const reset = (why: string): void => {
      if (this.#started) this.#runtime.abort(`blockConcurrencyWhile ${why}`);
    };
    const block = this.#exclusive.run("blockConcurrencyWhile", async () => {
      try {
        return await f();
      } catch (error) {
        reset(`failed: ${messageOf(error)}`);
        throw error;
      }
    });
    this.#runtime.waitUntil(block.catch(() => undefined));
    if (!this.#started) {
      this.#blocks = Promise.all([this.#blocks, block]);
      // After a constructor that throws, it is not awaited.
      this.#blocks.catch(() => undefined);
    }
    return block;
  }

  /**
   * Discards the object in memory with all that is not stored. The next event starts it again. What
   * `deleteAll` has deleted is stored first, with what the object sent: the reference's `destroy`
   * calls one right after the other.
   */
  abort(reason = "abort() was called"): void {
    const abort = (): void => this.#runtime.abort(reason);
    if (!ObjectStorage.isDeleting(this.storage)) return abort();
    this.#runtime.flush().then(abort, abort);
  }

  // Sockets

  /**
   * Accepts the server's end of a `WebSocketPair`, whose client's end this `fetch` returns. Its
   * events go to `webSocketMessage`, `webSocketClose` and `webSocketError`; the object may leave
   * memory meanwhile. At most 10 tags of 256 characters.
   */
  acceptWebSocket(socket: ObjectSocket, tags: ReadonlyArray<string> = []): void {
    this.#sockets.accept(socket, tags);
  }
  /** The connected sockets of `acceptWebSocket`: all, or those with this tag. */
  getWebSockets(tag?: string): ObjectSocket[] {
    return this.#sockets.list(tag);
  }
  /** The tags that a socket was accepted with. */
  getTags(socket: ObjectSocket): string[] {
    return this.#sockets.tagsOf(socket);
  }
  /**
   * A message that is answered without the object's code, on all sockets of `acceptWebSocket`;
   * without a pair, none is. Stored with the object.
   */
  setWebSocketAutoResponse(pair?: WebSocketRequestResponsePair): void {
    this.#sockets.autoResponse = pair ?? null;
  }
  /** The pair that is set; null without one. */
  getWebSocketAutoResponse(): WebSocketRequestResponsePair | null {
    return this.#sockets.autoResponse;
  }
  /** When this socket was last answered by the pair, since the object came to memory; else null. */
  getWebSocketAutoResponseTimestamp(socket: ObjectSocket): Date | null {
    return this.#sockets.answeredAt(socket);
  }
  /** Stored and not used: the limit of an event is that of a turn (`turnSeconds`). */
  setHibernatableWebSocketEventTimeout(timeoutMs?: number): void {
    this.#timeoutMs = timeoutMs ?? null;
  }
  /** The value that was set, or null. */
  getHibernatableWebSocketEventTimeout(): number | null {
    return this.#timeoutMs;
  }
}
