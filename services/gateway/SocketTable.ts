/**
 * The sockets of one gateway: the agent of each, what a host needs to know about it, and the frames
 * in both directions. Sockets are kept here, so that they survive hibernation, the loss of hosts
 * and an outage of the broker.
 *
 * 1. A client's messages reach its agent in order (`ClientMessages`). While no host owns the agent
 *    they queue up to a bound; past it, the socket is closed with 1013.
 * 2. A host that takes over a shard asks for the shard's sockets (`census`). A host that considered
 *    this gateway dead is notified of its sockets (`resumeAll`).
 * 3. Frames for a socket whose upgrade is not finished are buffered, so that the client receives
 *    them in order. A socket receives casts only after its agent's `begin`, so that none precedes
 *    its identity frame. Past `socketBufferBytesMax` buffered bytes, the socket is closed with 1013
 *    as it opens. As of unsent bytes, one frame above the limit does not count.
 * 4. The socket of a client that exceeds its rate (`SocketRates`) is closed with 1013. After 1008
 *    it would not reconnect, although another client at its address may have caused the excess.
 * 5. The host that takes over a shard ends sockets whose Durable Object was working
 *    (`services/host/slot/objectSockets`).
 */
import { largestUnsent, PeerBytes } from "../../core/http/PeerBytes.ts";
import { CLOSE_LAGGING, TOO_SLOW } from "../../core/http/closeFrame.ts";
import type { ServerSocket, SocketHandlers } from "../../core/http/HttpServer.ts";
import { sinceOf } from "../../core/stream/KeptMessages.ts";
import type { CallLost } from "../../core/call/AgentUnreachable.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import type { BusShape } from "../../core/bus/Bus.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { RateLimit } from "./RateLimit.ts";
import { addressKey, type AgentId, type ShardId } from "../../schemas/Address.ts";
import type {
  GatewayMessage,
  SocketAttachment,
  SocketInfo,
} from "../../schemas/bus/GatewayMessage.ts";
import { decodeMessage } from "../../schemas/bus/message.ts";
import type { CensusRequest, TrafficReply, TrafficRequest } from "../../schemas/bus/SocketLists.ts";
import { askHost } from "./askHost.ts";
import { censusPage } from "./censusPage.ts";
import { ClientMessages, type CloseFrame, type SocketOwner } from "./ClientMessages.ts";
import { FrameReassembler } from "./FrameReassembler.ts";
import type { GatewayConfig } from "./GatewayConfig.ts";
import { SocketRates, type SocketMeter } from "./SocketRates.ts";
import { SocketsByShard } from "./SocketsByShard.ts";

/** Concurrent resumes, so that a socket whose shard has no owner does not block the others. */
const RESUMES_AT_ONCE = 32;

/** Bytes of clients' messages that wait, of all sockets: as many as of requests' bodies. */
const WAITING_BYTES_MAX = 256 * 1024 * 1024;

/** Overhead of a buffered frame in addition to its bytes. */
const EARLY_FRAME_BYTES = 200;
const NO_BODY = new Uint8Array();

const encoder = new TextEncoder();

/** The dependencies of a `SocketTable`. */
export interface SocketServices {
  readonly config: Pick<
    GatewayConfig,
    | "gatewayId"
    | "requestDeadlineMs"
    | "shards"
    | "socketBufferBytesMax"
    | "socketRates"
    | "subjects"
  >;
  readonly bus: BusShape;
  readonly calls: CallClient;
  /** As in `GatewayServices`. */
  readonly entityLimit?: RateLimit | undefined;
  readonly leases: LeasesShape;
  readonly log: LogShape;
  readonly time: TimeShape;
}

/** A socket, and the handlers of its client's messages. */
export class Entry implements SocketHandlers {
  attachment: SocketAttachment | undefined;
  socket: ServerSocket | undefined;
  meter: SocketMeter | undefined;
  /** Rule 3: frames that arrived before the upgrade finished. */
  early: Array<(socket: ServerSocket) => void> | undefined;
  earlyBytes = 0;
  /** As `largestUnsent`, of them. */
  earlyLarge = 0;
  /** Created with the first message, or to deliver the close. */
  messages: ClientMessages<Entry> | undefined;
  gone: CloseFrame | undefined;
  /** As `SocketTraffic`. */
  framesIn = 0;
  bytesIn = 0;
  framesOut = 0;
  bytesOut = 0;

  constructor(
    private readonly table: SocketTable,
    readonly id: AgentId,
    readonly info: SocketInfo,
    /** As in `SocketsByShard`. */
    readonly place: number,
    /** The round of `resumeAll` in which the entry was added. */
    readonly round: number,
  ) {}

  onMessage(data: string | Uint8Array): void {
    const text = typeof data === "string";
    const bytes = text ? encoder.encode(data) : data;
    if (this.withinRate(bytes.length)) this.table.enqueue(this, bytes, text);
  }

  onPing(bytes: number): void {
    this.withinRate(bytes);
  }

  onClose(code: number, reason: string, wasClean: boolean): void {
    this.meter?.close();
    this.table.onPeerClosed(this, { code, reason, wasClean });
  }

  /** Rule 4. */
  private withinRate(bytes: number): boolean {
    const reason = this.meter?.take(bytes);
    if (reason !== undefined) this.table.closeOverRate(this, reason);
    return reason === undefined;
  }
}

export class SocketTable {
  readonly rates: SocketRates;
  private readonly entries = new Map<string, Entry>();
  private readonly byAgent = new Map<string, Set<Entry>>();
  /** Rule 5: keys of agents with sockets here. */
  private readonly working = new Set<string>();
  private readonly byShard: SocketsByShard<Entry>;
  private readonly reassembler = new FrameReassembler();
  private readonly waiting = new PeerBytes(WAITING_BYTES_MAX);
  private readonly owner: SocketOwner<Entry>;
  /** Counts calls of `resumeAll`. */
  private round = 0;

  constructor(private readonly services: SocketServices) {
    this.rates = new SocketRates(services.config.socketRates, services.time);
    this.byShard = new SocketsByShard(services.config.shards);
    this.owner = {
      calls: services.calls,
      gatewayId: services.config.gatewayId,
      waiting: this.waiting,
      has: (entry) => this.entries.get(entry.info.sid) === entry,
      infoOf,
      onCloseDelivered: (entry) => this.remove(entry),
      onUnreachable: (entry, error) => this.onUnreachable(entry, error),
      onTooMany: closeWithTooMany,
      onPoisonMessage: (entry, error) => this.onPoisonMessage(entry, error),
    };
  }

  get size(): number {
    return this.entries.size;
  }

  /** Registers a socket before its upgrade. Frames for it are buffered from now on (rule 3). */
  add(id: AgentId, info: SocketInfo): Entry {
    const entry = new Entry(this, id, info, this.byShard.nextPlace(), this.round);
    this.entries.set(info.sid, entry);
    this.byShard.add(entry);
    const key = addressKey(id);
    const of = this.byAgent.get(key);
    if (of === undefined) this.byAgent.set(key, new Set([entry]));
    else of.add(entry);
    return entry;
  }

  remove(entry: Entry): void {
    this.entries.delete(entry.info.sid);
    this.byShard.remove(entry);
    if (entry.messages !== undefined) this.waiting.forget(entry.messages);
    const key = addressKey(entry.id);
    const of = this.byAgent.get(key);
    of?.delete(entry);
    if (of?.size === 0) {
      this.byAgent.delete(key);
      this.working.delete(key);
    }
  }

  /**
   * Finishes the upgrade: sends the buffered frames and returns the handlers of the client's
   * messages. `address` is the client's as `addressOf` returns it.
   */
  open(entry: Entry, socket: ServerSocket, address: string): SocketHandlers {
    entry.socket = socket;
    for (const frame of entry.early ?? []) frame(socket);
    forgetEarly(entry);
    // The host may have created the socket and then dropped it when it considered this gateway
    // dead.
    if (entry.round !== this.round) void this.resume(entry);
    entry.meter = this.rates.open(address);
    return entry;
  }

  /**
   * The peer closed or vanished, before or after `open`. The agent is notified after its last
   * message.
   */
  onPeerClosed(entry: Entry, frame: CloseFrame): void {
    if (entry.gone !== undefined) return;
    entry.gone = frame;
    entry.socket = undefined;
    this.messagesOf(entry).pump();
  }

  /** Handles a host's message (`Subjects.gateway(id, "frame")`). Throws if it can't be read. */
  onHostMessage(data: Uint8Array): void {
    const { head, body } = decodeMessage<GatewayMessage>(data);
    if (head.op === "cast") return this.cast(head, body);
    if (head.op === "part") {
      const whole = this.reassembler.add(head, body);
      if (whole !== undefined) this.onHostMessage(whole);
      return;
    }
    if (head.op === "working") return this.setWorking(`${head.agent[0]}/${head.agent[1]}`, head.is);
    const entry = this.entries.get(head.sid);
    if (entry === undefined) return;
    if (head.op === "attach") {
      entry.attachment = head.attachment;
      if (head.begin) forgetEarly(entry);
    } else if (head.op === "send") {
      this.sendTo(entry, body, head.text);
    } else {
      if (head.forget) this.remove(entry);
      this.whenOpen(entry, NO_BODY, (socket) => socket.close(head.code, head.reason));
    }
  }

  /**
   * Returns the encoded `CensusReply` with one page of the sockets of a shard's agents, for the
   * shard's new owner (rule 2).
   */
  census({ shard, cursor }: CensusRequest): Uint8Array {
    const { bus, config } = this.services;
    return censusPage(this.byShard.after(shard as ShardId, Number(cursor ?? 0)), {
      gateway: config.gatewayId,
      messageBytesMax: bus.payloadBytesMax,
      describe: (entry) =>
        entry.attachment === undefined
          ? undefined
          : {
              agent: [entry.id.class, entry.id.name],
              socket: infoOf(entry),
              ...(this.working.has(addressKey(entry.id)) && { isWorking: true }),
            },
      onTooLarge: (entry) => this.onTooLarge(entry),
    });
  }

  /** Returns what was counted of those sockets that are open. */
  traffic({ traffic }: TrafficRequest): TrafficReply {
    return {
      traffic: traffic.flatMap((sid) => {
        const entry = this.entries.get(sid);
        if (entry === undefined) return [];
        const { framesIn, bytesIn, framesOut, bytesOut } = entry;
        return [{ sid, framesIn, bytesIn, framesOut, bytesOut }];
      }),
    };
  }

  /**
   * Notifies hosts of every socket again, after they may have considered this gateway dead (rule
   * 2). Never rejects. A call supersedes the previous one, which then ends early.
   */
  async resumeAll(): Promise<void> {
    const round = ++this.round;
    const entries = [...this.entries.values()].values();
    const resumeNext = async (): Promise<void> => {
      for (const entry of entries) {
        if (round !== this.round) return;
        if (!this.owner.has(entry) || entry.attachment === undefined || entry.gone !== undefined)
          continue;
        await this.resume(entry);
      }
    };
    await Promise.all(Array.from({ length: RESUMES_AT_ONCE }, resumeNext));
  }

  /** Never rejects. If no host could be notified, the next message or census does so. */
  private async resume(entry: Entry): Promise<void> {
    const call = { kind: "resume", socket: infoOf(entry) } as const;
    await askHost(this.services.calls, entry.id, call).catch(() => undefined);
  }

  private setWorking(key: string, is: boolean): void {
    if (is && this.byAgent.has(key)) this.working.add(key);
    else this.working.delete(key);
  }

  private cast(head: GatewayMessage & { op: "cast" }, body: Uint8Array): void {
    const of = this.byAgent.get(`${head.agent[0]}/${head.agent[1]}`);
    if (of === undefined) return;
    for (const entry of of) {
      if (entry.attachment === undefined) continue;
      if (head.except.length > 0 && head.except.includes(entry.info.id)) continue;
      if (head.protocol && !entry.attachment.protocol) continue;
      if (head.counts !== undefined && head.counts !== isCounting(entry.info.url)) continue;
      this.sendTo(entry, body, head.text);
    }
  }

  /** Text stays in bytes until it is sent: a frame for ten sockets is not encoded ten times. */
  private sendTo(entry: Entry, body: Uint8Array, text: boolean): void {
    const { socket } = entry;
    if (socket === undefined)
      this.whenOpen(entry, body, (opened) => sendOn(entry, opened, body, text));
    else sendOn(entry, socket, body, text);
  }

  /** Rule 3: runs `frame` now, or once the upgrade has finished. */
  private whenOpen(entry: Entry, newest: Uint8Array, frame: (socket: ServerSocket) => void): void {
    if (entry.socket !== undefined) return frame(entry.socket);
    const bytesMax = this.services.config.socketBufferBytesMax;
    const isOver = (): boolean => entry.earlyBytes - entry.earlyLarge > bytesMax;
    if (entry.gone !== undefined || isOver()) return;
    const keptBytes = (entry.earlyBytes += newest.length + EARLY_FRAME_BYTES);
    entry.earlyLarge = largestUnsent(entry.earlyLarge, { keptBytes, newest, bytesMax });
    if (isOver()) {
      entry.early = [(socket) => socket.close(CLOSE_LAGGING, TOO_SLOW)];
    } else (entry.early ??= []).push(frame);
  }

  closeOverRate(entry: Entry, reason: string): void {
    this.services.log.warn("a client exceeded its rate; its socket was closed", {
      ...entry.id,
      why: reason,
    });
    entry.socket?.close(CLOSE_LAGGING, reason);
  }

  enqueue(entry: Entry, data: Uint8Array, text: boolean): void {
    entry.framesIn++;
    entry.bytesIn += data.length;
    if (!this.messagesOf(entry).push(data, text)) closeWithTooMany(entry);
  }

  private messagesOf(entry: Entry): ClientMessages<Entry> {
    return (entry.messages ??= new ClientMessages(entry, this.owner));
  }

  private onPoisonMessage({ socket }: Entry, error: CallLost): void {
    this.services.log.warn("two hosts were lost while they ran a message; its socket was closed", {
      error: error.message,
    });
    socket?.close(1011, "The agent's host was lost twice while it had this socket's message");
  }

  /** The state of its connection comes from an older host, which did not limit it. */
  private onTooLarge(entry: Entry): void {
    this.services.log.warn(
      "a connection's state is too large for another host; its socket was closed",
      { ...entry.id },
    );
    entry.socket?.close(CLOSE_LAGGING, "The connection's state is too large");
    this.remove(entry);
  }

  private onUnreachable(entry: Entry, error: unknown): void {
    const { log } = this.services;
    log.warn("a socket's agent can't be reached; the socket was closed", { error: String(error) });
    entry.socket?.close(1013, "The agent can't be reached");
    this.remove(entry);
  }
}

const closeWithTooMany = ({ socket }: Entry): void =>
  socket?.close(CLOSE_LAGGING, "Too many messages are waiting for the agent");

/** Whether the socket has a place in the kept broadcasts. */
const isCounting = (url: string): boolean => sinceOf(url) !== undefined;

const infoOf = ({ info, attachment, messages }: Entry): SocketInfo =>
  attachment === undefined ? info : { ...info, attachment, next: messages?.next ?? 1 };

function sendOn(entry: Entry, socket: ServerSocket, body: Uint8Array, text: boolean): void {
  entry.framesOut++;
  entry.bytesOut += body.length;
  if (text) socket.sendText(body);
  else socket.send(body);
}

function forgetEarly(entry: Entry): void {
  entry.early = undefined;
  entry.earlyBytes = 0;
  entry.earlyLarge = 0;
}
