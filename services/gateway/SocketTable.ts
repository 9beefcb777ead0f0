/**
 * The sockets of one gateway: which agent each belongs to, what a host needs to know of it, and the
 * frames between. The socket lives here, so it outlives hibernation, hosts and the broker.
 *
 * 1. A client's messages reach its agent in order, one at a time until taken; while no host owns the
 *    agent they wait here, up to `QUEUE_MAX`, and then the socket is closed with 1013.
 * 2. A host that does not know a socket is told all about it (`resume`) and asked again.
 * 3. Frames for a socket whose upgrade is not finished wait for it: the client sees them in order.
 *    Casts reach a socket from its agent's `begin` on, so none comes before its identity frame.
 */
import { AgentUnreachable } from "../../core/call/CallClient.ts";
import type { ServerSocket, SocketHandlers } from "../../core/http/HttpServer.ts";
import { addressKey, shardOf, type AgentId } from "../../schemas/Address.ts";
import {
  decodeMessage,
  encodeMessage,
  type CensusReply,
  type CensusRequest,
  type GatewayMessage,
  type SocketAttachment,
  type SocketInfo,
} from "../../schemas/Call.ts";
import { FrameParts } from "./FrameParts.ts";
import { listen } from "./listen.ts";
import type { GatewayServices } from "./GatewayServices.ts";

/** Messages of one client that wait for its agent. */
const QUEUE_MAX = 1000;
/** How long messages wait for a host before the socket is given up. */
const HOLD_MS = 120_000;
/** Sockets in one census reply: well under any payload limit. */
const CENSUS_PAGE = 200;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export interface Entry {
  readonly id: AgentId;
  readonly info: SocketInfo;
  attachment: SocketAttachment | undefined;
  socket: ServerSocket | undefined;
  /** Frames that came before the upgrade was finished. */
  readonly early: Array<(socket: ServerSocket) => void>;
  readonly queue: Array<{ readonly data: Uint8Array; readonly text: boolean }>;
  pumping: boolean;
  gone: { readonly code: number; readonly reason: string; readonly wasClean: boolean } | undefined;
}

export class SocketTable {
  private readonly services: GatewayServices;
  private readonly entries = new Map<string, Entry>();
  private readonly byAgent = new Map<string, Set<Entry>>();
  private readonly parts = new FrameParts();

  constructor(services: GatewayServices) {
    this.services = services;
  }

  get size(): number {
    return this.entries.size;
  }

  /** Registers a socket that is about to be upgraded: frames for it are kept from now on. */
  add(id: AgentId, info: SocketInfo): Entry {
    const entry: Entry = {
      id,
      info,
      attachment: undefined,
      socket: undefined,
      early: [],
      queue: [],
      pumping: false,
      gone: undefined,
    };
    this.entries.set(info.sid, entry);
    const key = addressKey(id);
    const of = this.byAgent.get(key);
    if (of === undefined) this.byAgent.set(key, new Set([entry]));
    else of.add(entry);
    return entry;
  }

  remove(entry: Entry): void {
    this.entries.delete(entry.info.sid);
    const key = addressKey(entry.id);
    const of = this.byAgent.get(key);
    of?.delete(entry);
    if (of?.size === 0) this.byAgent.delete(key);
  }

  /** The upgrade is finished: what waited is sent, and the client's messages begin to flow. */
  opened(entry: Entry, socket: ServerSocket): SocketHandlers {
    entry.socket = socket;
    for (const frame of entry.early) frame(socket);
    entry.early.length = 0;
    return {
      onMessage: (data) => {
        const text = typeof data === "string";
        this.enqueue(entry, text ? encoder.encode(data) : data, text);
      },
      onClose: (code, reason, wasClean) => this.closed(entry, { code, reason, wasClean }),
    };
  }

  /** The peer went before or after the upgrade: the agent hears of it after its last message. */
  closed(entry: Entry, how: NonNullable<Entry["gone"]>): void {
    if (entry.gone !== undefined) return;
    entry.gone = how;
    entry.socket = undefined;
    void this.pump(entry);
  }

  /** A message from a host (`Subjects.gateway(id, "frame")`). */
  receive(data: Uint8Array): void {
    const { head, body } = decodeMessage<GatewayMessage>(data);
    if (head.op === "cast") return this.cast(head, body);
    if (head.op === "part") {
      const whole = this.parts.take(head, body);
      if (whole !== undefined) this.receive(whole);
      return;
    }
    const entry = this.entries.get(head.sid);
    if (entry === undefined) return;
    if (head.op === "attach") {
      entry.attachment = head.attachment;
      if (head.begin) entry.early.length = 0;
    } else if (head.op === "send") {
      const payload = payloadOf(body, head.text);
      toSocket(entry, (socket) => socket.send(payload));
    } else {
      if (head.forget) this.remove(entry);
      toSocket(entry, (socket) => socket.close(head.code, head.reason));
    }
  }

  /** One page of the sockets of a shard's agents, for its new owner. */
  census({ shard, cursor }: CensusRequest): CensusReply {
    const { gatewayId, shards } = this.services.config;
    const all = [...this.entries.values()].filter((e) => shardOf(e.id, shards) === shard);
    const from = Number(cursor ?? 0);
    const page = all.slice(from, from + CENSUS_PAGE);
    return {
      gateway: gatewayId,
      sockets: page
        .filter((entry) => entry.attachment !== undefined)
        .map((entry) => ({
          agent: [entry.id.class, entry.id.name] as const,
          socket: infoOf(entry),
        })),
      ...(from + CENSUS_PAGE < all.length ? { next: String(from + CENSUS_PAGE) } : {}),
    };
  }

  /** Tells hosts again about every socket: they took this gateway for dead. */
  async resumeAll(): Promise<void> {
    for (const entry of this.entries.values())
      if (entry.attachment !== undefined && entry.gone === undefined)
        await this.call(entry, { kind: "resume", socket: infoOf(entry) }).catch(() => undefined);
  }

  private cast(head: GatewayMessage & { op: "cast" }, body: Uint8Array): void {
    const of = this.byAgent.get(`${head.agent[0]}/${head.agent[1]}`);
    if (of === undefined) return;
    const payload = payloadOf(body, head.text);
    for (const entry of of) {
      if (entry.attachment === undefined) continue;
      if (head.except.length > 0 && head.except.includes(entry.info.id)) continue;
      if (head.protocol && !entry.attachment.protocol) continue;
      toSocket(entry, (socket) => socket.send(payload));
    }
  }

  private enqueue(entry: Entry, data: Uint8Array, text: boolean): void {
    if (entry.queue.length >= QUEUE_MAX) {
      entry.socket?.close(1013, "Too many messages are waiting for the agent");
      return;
    }
    entry.queue.push({ data, text });
    void this.pump(entry);
  }

  /** Rule 1. */
  private async pump(entry: Entry): Promise<void> {
    if (entry.pumping) return;
    entry.pumping = true;
    const { gatewayId } = this.services.config;
    const { sid } = entry.info;
    try {
      for (let next = entry.queue.shift(); next !== undefined; next = entry.queue.shift())
        await this.tell(
          entry,
          { kind: "message", gateway: gatewayId, sid, text: next.text },
          next.data,
        );
      if (entry.gone !== undefined && this.entries.has(sid)) {
        await this.tell(entry, { kind: "close", gateway: gatewayId, sid, ...entry.gone });
        this.remove(entry);
      }
    } catch (error) {
      const log = this.services.log;
      log.warn("a socket's agent can't be reached; the socket is closed", { error: String(error) });
      entry.socket?.close(1013, "The agent can't be reached");
      this.remove(entry);
    } finally {
      entry.pumping = false;
    }
    if (entry.queue.length > 0 || (entry.gone !== undefined && this.entries.has(sid)))
      await this.pump(entry);
  }

  /** Rule 2. */
  private async tell(
    entry: Entry,
    call: Parameters<SocketTable["call"]>[1],
    body?: Uint8Array,
  ): Promise<void> {
    // Until the host takes it, or closes a socket that it has no agent for any more.
    while (this.entries.has(entry.info.sid)) {
      const { reply } = await this.call(entry, call, body);
      if (reply.kind === "error") throw new AgentUnreachable({ message: reply.message });
      if (reply.kind !== "unknownSocket") return;
      await this.call(entry, { kind: "resume", socket: infoOf(entry) });
    }
  }

  private call(
    entry: Entry,
    call: Parameters<GatewayServices["calls"]["call"]>[1],
    body?: Uint8Array,
  ): ReturnType<GatewayServices["calls"]["call"]> {
    return this.services.calls.call(entry.id, call, {
      deadlineMs: HOLD_MS,
      repeatable: true,
      ...(body === undefined ? {} : { body }),
    });
  }
}

const infoOf = (entry: Entry): SocketInfo =>
  entry.attachment === undefined ? entry.info : { ...entry.info, attachment: entry.attachment };

const payloadOf = (body: Uint8Array, text: boolean): string | Uint8Array =>
  text ? decoder.decode(body) : body;

/** Rule 3. */
function toSocket(entry: Entry, frame: (socket: ServerSocket) => void): void {
  if (entry.socket !== undefined) frame(entry.socket);
  else if (entry.gone === undefined) entry.early.push(frame);
}

/** Serves a host's census requests until the returned function is called. */
export function serveCensus(services: GatewayServices, sockets: SocketTable): () => void {
  const { subjects, gatewayId } = services.config;
  return listen(services, subjects.gateway(gatewayId, "census"), ({ data, reply }) => {
    if (reply === undefined) return;
    const { head } = decodeMessage<CensusRequest>(data);
    services.bus.publish(reply, encodeMessage(sockets.census(head)));
  });
}
