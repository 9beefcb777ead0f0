/**
 * The messages of one client on their way to its agent: pipelined while the host accepts them, else
 * sent one at a time. `SocketTable` pushes them; `socketCalls` on the host receives them.
 *
 * 1. **Order.** An agent takes a message only if its number is the next one, so nothing on the way
 *    (the bus, a slow start, a change of owner) can reorder messages or leave one out.
 * 2. **No loss**, except by rule 5. A message is kept until the host answers `taken` for it or for
 *    a later one, once their writes are stored. The close is sent after the last message.
 * 3. **No repetition.** A message known to be taken is not sent again. If an answer is missing
 *    (after `ANSWER_TIMEOUT_MS`) or not `taken`, nothing is sent until each message in flight is
 *    answered or given up; then the first one not known to be taken is sent alone. An agent that
 *    has taken it says so and does not run it again. Only if no answer came before its host was
 *    lost, or left in order, does the next owner run messages again, `IN_FLIGHT_MAX` at most.
 * 4. **Bounds.** At most `IN_FLIGHT_MAX` messages and about `IN_FLIGHT_BYTES_MAX` are in flight;
 *    more wait here, in memory of `QUEUED_BYTES_MAX`. The waiting messages of all sockets share a
 *    total: past it, the sockets with the most are closed and theirs are dropped.
 * 5. **Poison messages.** A message in flight when its host was lost is sent alone, once more only
 *    (`RepeatedCall`, rule 4), and not if its client has gone. If the next host is lost too, the
 *    socket is closed. Messages behind one given up are dropped; the agent gets the close.
 * 6. **Errors are final.** If the agent cannot start, or aborts, the socket is closed and nothing
 *    is sent again. If that answer is lost, the host repeats it (`EndedSockets`).
 */
import { AgentUnreachable, CallLost } from "../../core/call/AgentUnreachable.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import { CallTries } from "../../core/call/CallTries.ts";
import type { Peer, PeerBytes } from "../../core/http/PeerBytes.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { ANSWER_TIMEOUT_MS, askHost } from "./askHost.ts";

/** Enough to keep a round trip of a few milliseconds busy. */
const IN_FLIGHT_MAX = 64;
/**
 * Bounds the memory that a slow host makes a gateway and the broker use for one socket. A single
 * message may be larger.
 */
const IN_FLIGHT_BYTES_MAX = 1024 * 1024;
/**
 * Bounds the memory that one client can use on a gateway while its agent is unavailable, since the
 * HTTP server's port cannot slow a socket down: two seconds at the rates of `SocketRates`.
 */
const QUEUED_BYTES_MAX = 16 * 1024 * 1024;
/** Memory of a waiting message beside its data: measured 460 to 490 bytes of heap. */
const MESSAGE_BYTES = 512;

export interface CloseFrame {
  readonly code: number;
  readonly reason: string;
  readonly wasClean: boolean;
}

export interface ClientSocket {
  readonly id: AgentId;
  readonly info: SocketInfo;
  /** How the socket closed. Undefined while it is open. */
  readonly gone: CloseFrame | undefined;
}

/** What `ClientMessages` needs from the table of sockets. */
export interface SocketOwner<S extends ClientSocket> {
  readonly calls: CallClient;
  readonly gatewayId: string;
  /** Rule 4: the bytes of all sockets' waiting messages. */
  readonly waiting: PeerBytes;
  readonly has: (socket: S) => boolean;
  /** Everything that a host needs in order to add the socket. */
  readonly infoOf: (socket: S) => SocketInfo;
  /** The agent has received the socket's close. */
  readonly onCloseDelivered: (socket: S) => void;
  /** The agent cannot be reached, or rule 6 applies. */
  readonly onUnreachable: (socket: S, error: unknown) => void;
  /** Rule 4: closes the socket, whose agent then receives the close. */
  readonly onTooMany: (socket: S) => void;
  /** Rule 5: closes the socket, whose close the agent then receives like any other. */
  readonly onPoisonMessage: (socket: S, error: CallLost) => void;
}

interface Message {
  readonly number: number;
  readonly data: Uint8Array;
  /** Of memory. */
  readonly bytes: number;
  readonly text: boolean;
  readonly tries: CallTries;
}

/** Rule 5: the client of a message that may have ended its host has gone. */
class ClientGone extends Error {}

export class ClientMessages<S extends ClientSocket> implements Peer {
  /** Messages to be sent, or to be sent again, oldest first. */
  private queued: Message[] = [];
  private queuedBytes = 0;
  /** Messages sent by `pipeline` and not known to be taken, oldest first. */
  private inFlight: Message[] = [];
  private inFlightBytes = 0;
  private unanswered = 0;
  private lastNumber = 0;
  /**
   * The last answer came from an agent that keeps the order, so that further messages may be sent
   * before the next answer.
   */
  private pipelining = false;
  /** `sendOneByOne` runs. */
  private sendingAlone = false;
  /** Rules 4 and 5: a message was given up. Later ones are dropped. */
  private gaveUp = false;

  constructor(
    private readonly socket: S,
    private readonly owner: SocketOwner<S>,
  ) {}

  /** Number of the first message that is not known to be taken. */
  get next(): number {
    return (this.inFlight[0] ?? this.queued[0])?.number ?? this.lastNumber + 1;
  }

  /** Queues a message of the client. Returns false if the queue is full (rule 4). */
  push(data: Uint8Array, text: boolean): boolean {
    if (this.gaveUp) return true;
    const bytes = data.length + MESSAGE_BYTES;
    if (this.queuedBytes + bytes > QUEUED_BYTES_MAX) return false;
    this.queuedBytes += bytes;
    this.queued.push({ number: ++this.lastNumber, data, bytes, text, tries: new CallTries() });
    this.pump();
    this.owner.waiting.report(this);
    return true;
  }

  get keptBytes(): number {
    return this.queuedBytes;
  }

  /** Rule 4: the total is reached. */
  cut(): void {
    this.gaveUp = true;
    this.dropQueued();
    this.owner.onTooMany(this.socket);
  }

  /** Sends what may be sent. Called whenever something has changed. */
  pump(): void {
    if (this.sendingAlone) return;
    if (!this.owner.has(this.socket)) return this.dropQueued();
    while (this.pipelining && this.hasRoom()) this.pipeline(this.dequeue());
    if (this.unanswered > 0) return;
    this.queued.unshift(...this.inFlight);
    this.inFlight = [];
    this.queuedBytes += this.inFlightBytes;
    this.inFlightBytes = 0;
    if (this.queued.length > 0 || this.socket.gone !== undefined) void this.sendOneByOne();
  }

  private dequeue(): Message {
    const message = this.queued.shift()!;
    this.queuedBytes -= message.bytes;
    return message;
  }

  private dropQueued(): void {
    this.queued = [];
    this.queuedBytes = 0;
  }

  private hasRoom(): boolean {
    const message = this.queued[0];
    return (
      message !== undefined &&
      this.inFlight.length < IN_FLIGHT_MAX &&
      this.inFlightBytes < IN_FLIGHT_BYTES_MAX &&
      // Rule 5.
      !message.tries.isOut &&
      // A message that is sent by the blob store is sent alone.
      this.owner.calls.fits(message.data)
    );
  }

  private pipeline(message: Message): void {
    this.inFlight.push(message);
    this.inFlightBytes += message.bytes;
    this.unanswered++;
    const onAnswer = (reply: CallReply | undefined): void => {
      this.unanswered--;
      if (reply?.kind === "error") this.onError(reply.message);
      this.onReply(reply);
      this.pump();
    };
    const { data: body, tries } = message;
    this.owner.calls
      .offer(this.socket.id, this.callOf(message), { body, tries, deadlineMs: ANSWER_TIMEOUT_MS })
      // An answer that cannot be read counts as missing.
      .then(onAnswer, () => onAnswer(undefined));
  }

  /** Rule 6. */
  private onError(message: string): void {
    const { owner, socket } = this;
    if (owner.has(socket)) owner.onUnreachable(socket, new AgentUnreachable({ message }));
  }

  private onReply(reply: CallReply | undefined): void {
    if (reply?.kind !== "taken" || reply.next === undefined) {
      this.pipelining = false;
      return;
    }
    // Rule 2: earlier messages are taken too, even if their own answers are missing.
    while (this.inFlight.length > 0 && this.inFlight[0]!.number < reply.next)
      this.inFlightBytes -= this.inFlight.shift()!.bytes;
  }

  /** Rule 3: sends one at a time until an agent that keeps the order takes one, then the close. */
  private async sendOneByOne(): Promise<void> {
    const { owner, socket } = this;
    this.sendingAlone = true;
    try {
      this.pipelining = false;
      while (!this.pipelining && owner.has(socket)) {
        const message = this.queued[0];
        if (message === undefined) {
          await this.sendClose();
          break;
        }
        const reply = await this.sendAlone(message);
        if (!this.gaveUp) this.dequeue();
        this.pipelining = reply?.kind === "taken" && reply.next !== undefined;
      }
    } catch (error) {
      owner.onUnreachable(socket, error);
    } finally {
      this.sendingAlone = false;
    }
    this.pump();
  }

  private async sendClose(): Promise<void> {
    const { socket, owner } = this;
    const { gone } = socket;
    if (gone === undefined) return;
    const { sid } = socket.info;
    await this.ask({ kind: "close", gateway: owner.gatewayId, sid, ...gone });
    owner.onCloseDelivered(socket);
  }

  /** Like `ask`, but also resolves to undefined if the message is given up (rule 5). */
  private async sendAlone(message: Message): Promise<CallReply | undefined> {
    const { data: body, tries } = message;
    const beforeRepeat = (): void => {
      if (tries.isSuspect && this.socket.gone !== undefined) throw new ClientGone();
    };
    try {
      return await this.ask(this.callOf(message), { body, tries, beforeRepeat });
    } catch (error) {
      const isPoison = error instanceof CallLost;
      if (!isPoison && !(error instanceof ClientGone)) throw error;
      this.gaveUp = true;
      this.dropQueued();
      if (isPoison && this.socket.gone === undefined)
        this.owner.onPoisonMessage(this.socket, error);
      return undefined;
    }
  }

  /**
   * Repeats the call until the host accepts it. Resolves to undefined if the socket is closed
   * meanwhile, because its agent no longer has it. Rejects with `AgentUnreachable` for an error of
   * the agent.
   */
  private async ask(
    call: Call,
    options: Parameters<typeof askHost>[3] = {},
  ): Promise<CallReply | undefined> {
    const { owner, socket } = this;
    while (owner.has(socket)) {
      const reply = await askHost(owner.calls, socket.id, call, options);
      if (reply.kind === "error") throw new AgentUnreachable({ message: reply.message });
      if (reply.kind !== "unknownSocket") return reply;
      await askHost(owner.calls, socket.id, { kind: "resume", socket: owner.infoOf(socket) });
    }
    return undefined;
  }

  private callOf({ number, text }: Message): Call {
    const { gatewayId } = this.owner;
    return { kind: "message", gateway: gatewayId, sid: this.socket.info.sid, text, number };
  }
}
