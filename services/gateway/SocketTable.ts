/**
 * The sockets of one gateway: which agent each belongs to, what a host needs to know of it, and the
 * frames between. The socket lives here, so it outlives hibernation, hosts and the broker.
 *
 * 1. A client's messages reach its agent in order (`ClientMessages`); while no host owns the agent they wait
 *    there, up to a bound, and then the socket is closed with 1013.
 * 2. A host that takes a shard over asks for its sockets (`census`), one that lost a gateway is told (`resumeAll`).
 * 3. Frames for a socket whose upgrade is not finished wait for it: the client sees them in order.
 *    Casts reach a socket from its agent's `begin` on, so none comes before its identity frame. Past
 *    `socketBufferBytesMax` of them the socket is closed with 1013 as it opens.
 * 4. A client that sends more than its rate (`SocketRates`) is closed with 1013: not with 1008, at which
 *    clients stay away for good, for who shares an address may have done nothing.
 */
import { CLOSE_LAGGING } from "../../core/http/closeFrame.ts";
import type { ServerSocket, SocketHandlers } from "../../core/http/HttpServer.ts";
import type { CallLost } from "../../core/call/CallClient.ts";
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
import { askHost } from "./askHost.ts";
import { ClientMessages, type CloseFrame, type MessageRelay } from "./ClientMessages.ts";
import { FrameParts } from "./FrameParts.ts";
import { listen } from "./listen.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { SocketRates } from "./SocketRates.ts";

/** Sockets whose hosts are told of them at once: one whose shard nobody owns must not keep the others. */
const RESUMES_AT_ONCE = 32;
/** Sockets in one census reply: well under any payload limit. */
const CENSUS_PAGE = 200;

/** What a frame that waits costs beside its bytes. */
const EARLY_FRAME_BYTES = 200;

const encoder = new TextEncoder();

export interface Entry {
  readonly id: AgentId;
  readonly info: SocketInfo;
  attachment: SocketAttachment | undefined;
  socket: ServerSocket | undefined;
  /** Frames that came before the upgrade was finished. */
  readonly early: Array<(socket: ServerSocket) => void>;
  earlyBytes: number;
  /** Made with the first one, or to tell of the close. */
  messages: ClientMessages<Entry> | undefined;
  gone: CloseFrame | undefined;
  /** The last one of `resumeAll` when it was added. */
  readonly round: number;
}

export class SocketTable {
  private readonly services: GatewayServices;
  private readonly entries = new Map<string, Entry>();
  private readonly byAgent = new Map<string, Set<Entry>>();
  private readonly parts = new FrameParts();
  private readonly rates: SocketRates;
  private readonly relay: MessageRelay<Entry>;
  /** Of `resumeAll`. */
  private round = 0;

  constructor(services: GatewayServices) {
    this.services = services;
    this.rates = new SocketRates(services.config.socketRates, services.time);
    this.relay = {
      calls: services.calls,
      gatewayId: services.config.gatewayId,
      has: (entry) => this.entries.get(entry.info.sid) === entry,
      infoOf,
      ended: (entry, error) => this.ended(entry, error),
      broken: (entry, error) => this.broken(entry, error),
    };
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
      earlyBytes: 0,
      messages: undefined,
      gone: undefined,
      round: this.round,
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

  /** The upgrade is finished: what waited is sent, and the client's messages begin to flow. `address`: as by `addressOf`. */
  opened(entry: Entry, socket: ServerSocket, address: string): SocketHandlers {
    entry.socket = socket;
    for (const frame of entry.early) frame(socket);
    forgetEarly(entry);
    // Its host may have made it before it heard that this gateway is gone, and forgotten it then.
    if (entry.round !== this.round) void this.resume(entry);
    const meter = this.rates.open(address);
    /** Rule 4. */
    const mayTake = (bytes: number): boolean => {
      const reason = meter.take(bytes);
      if (reason !== undefined) this.refuse(entry, reason);
      return reason === undefined;
    };
    return {
      onMessage: (data) => {
        const text = typeof data === "string";
        const bytes = text ? encoder.encode(data) : data;
        if (mayTake(bytes.length)) this.enqueue(entry, bytes, text);
      },
      onPing: mayTake,
      onClose: (code, reason, wasClean) => {
        meter.close();
        this.closed(entry, { code, reason, wasClean });
      },
    };
  }

  /** The peer went before or after the upgrade: the agent hears of it after its last message. */
  closed(entry: Entry, how: CloseFrame): void {
    if (entry.gone !== undefined) return;
    entry.gone = how;
    entry.socket = undefined;
    this.messagesOf(entry).flow();
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
      if (head.begin) forgetEarly(entry);
    } else if (head.op === "send") {
      this.sendTo(entry, body, head.text);
    } else {
      if (head.forget) this.remove(entry);
      this.toSocket(entry, 0, (socket) => socket.close(head.code, head.reason));
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

  /** Tells hosts again about every socket: they took this gateway for dead. Never rejects; what was begun before ends. */
  async resumeAll(): Promise<void> {
    const round = ++this.round;
    const entries = [...this.entries.values()].values();
    const tell = async (): Promise<void> => {
      for (const entry of entries) {
        if (round !== this.round) return;
        if (!this.relay.has(entry) || entry.attachment === undefined || entry.gone !== undefined)
          continue;
        await this.resume(entry);
      }
    };
    await Promise.all(Array.from({ length: RESUMES_AT_ONCE }, tell));
  }

  /** Never rejects: a socket that nobody could be told of speaks for itself, or is asked for. */
  private async resume(entry: Entry): Promise<void> {
    const call = { kind: "resume", socket: infoOf(entry) } as const;
    await askHost(this.services.calls, entry.id, call).catch(() => undefined);
  }

  private cast(head: GatewayMessage & { op: "cast" }, body: Uint8Array): void {
    const of = this.byAgent.get(`${head.agent[0]}/${head.agent[1]}`);
    if (of === undefined) return;
    for (const entry of of) {
      if (entry.attachment === undefined) continue;
      if (head.except.length > 0 && head.except.includes(entry.info.id)) continue;
      if (head.protocol && !entry.attachment.protocol) continue;
      this.sendTo(entry, body, head.text);
    }
  }

  /** Text is bytes until it leaves: a frame for ten sockets is not written ten times from a string. */
  private sendTo(entry: Entry, body: Uint8Array, text: boolean): void {
    const { socket } = entry;
    if (socket === undefined)
      this.toSocket(entry, body.length, (opened) => sendOn(opened, body, text));
    else sendOn(socket, body, text);
  }

  /** Rule 3. */
  private toSocket(entry: Entry, bytes: number, frame: (socket: ServerSocket) => void): void {
    if (entry.socket !== undefined) return frame(entry.socket);
    const bytesMax = this.services.config.socketBufferBytesMax;
    if (entry.gone !== undefined || entry.earlyBytes > bytesMax) return;
    entry.earlyBytes += bytes + EARLY_FRAME_BYTES;
    if (entry.earlyBytes > bytesMax) {
      entry.early.length = 0;
      entry.early.push((socket) => socket.close(CLOSE_LAGGING, "Too slow to receive"));
    } else entry.early.push(frame);
  }

  private refuse(entry: Entry, reason: string): void {
    this.services.log.warn("a client sent too much; its socket is closed", {
      ...entry.id,
      why: reason,
    });
    entry.socket?.close(CLOSE_LAGGING, reason);
  }

  private enqueue(entry: Entry, data: Uint8Array, text: boolean): void {
    if (!this.messagesOf(entry).push(data, text))
      entry.socket?.close(1013, "Too many messages are waiting for the agent");
  }

  private messagesOf(entry: Entry): ClientMessages<Entry> {
    return (entry.messages ??= new ClientMessages(entry, this.relay));
  }

  private broken({ socket }: Entry, error: CallLost): void {
    this.services.log.warn("a message may have ended two hosts; its socket is closed", {
      error: error.message,
    });
    socket?.close(1011, "The agent's host was lost twice while it had this socket's message");
  }

  private ended(entry: Entry, error: unknown): void {
    if (error !== undefined) {
      const log = this.services.log;
      log.warn("a socket's agent can't be reached; the socket is closed", { error: String(error) });
      entry.socket?.close(1013, "The agent can't be reached");
    }
    this.remove(entry);
  }
}

const infoOf = ({ info, attachment, messages }: Entry): SocketInfo =>
  attachment === undefined ? info : { ...info, attachment, next: messages?.next ?? 1 };

function sendOn(socket: ServerSocket, body: Uint8Array, text: boolean): void {
  if (text) socket.sendText(body);
  else socket.send(body);
}

function forgetEarly(entry: Entry): void {
  entry.early.length = 0;
  entry.earlyBytes = 0;
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
