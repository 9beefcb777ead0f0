/**
 * The messages of one client on their way to its agent: numbered as they come, sent ahead of the host's
 * word while all goes well, and one at a time while it does not. Fed by `SocketTable`, which keeps the
 * socket; the other half is `handleCall`, which takes them.
 *
 * 1. **Order.** An agent takes a message only if its number is the next one. So nothing on the way (the
 *    bus, a start that takes long, an owner that changes between two messages) can put one before another.
 * 2. **Nothing is lost**, but by rule 5. A message is kept until the host says `taken` for it or a later one, which it
 *    does when what they wrote is stored; and the close is told after the last message.
 * 3. **Nothing twice.** What is known to be taken is never sent again. When an answer is missing or
 *    another than `taken`, nothing more is sent until every message that is out has its answer or is given up;
 *    then the first that is not known to be taken goes alone. An agent that has taken it says so and does not run it
 *    again. Only when its host was lost before the answer arrived does the next owner run it again: up to `OUT_MAX` messages.
 *    An answer that takes longer than `HEARD_MS` counts as missing.
 * 4. **Bounds.** At most `OUT_MAX` messages and about `OUT_BYTES_MAX` are ahead; `WAITING_MAX` more wait here, of
 *    `WAITING_BYTES_MAX` in all.
 * 5. **What ends hosts ends here.** A message that was out when its host was lost goes alone, and once more only (`CallClient`,
 *    rule 6); when the next host is lost, too, its socket is closed, and the agent learns of that. Such a message of a client
 *    that has gone is dropped: nobody waits for what it does.
 * 6. **An error is the end.** An agent that can't start, or was aborted by what it got, would be again: its socket is
 *    closed, and no message asked again; when that answer is lost, the host gives it again (`EndedSockets`).
 */
import { AgentUnreachable, CallLost, type CallClient } from "../../core/call/CallClient.ts";
import { CallTries } from "../../core/call/CallTries.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { Call, CallReply, SocketInfo } from "../../schemas/Call.ts";
import { askHost, HEARD_MS } from "./askHost.ts";

/** Enough to keep a round trip of a few milliseconds busy. */
const OUT_MAX = 64;
/** What a slow host makes a gateway and the broker hold for one socket; one message may be larger. */
const OUT_BYTES_MAX = 1024 * 1024;
/** Messages of one client that wait for its agent: the port to its socket can't slow it down. */
const WAITING_MAX = 1000;
/** What one client can make a gateway hold while its agent is away: two seconds at the rate of `SocketRates`. */
const WAITING_BYTES_MAX = 16 * 1024 * 1024;

export interface CloseFrame {
  readonly code: number;
  readonly reason: string;
  readonly wasClean: boolean;
}

/** The socket's side, as its table has it. */
export interface ClientSocket {
  readonly id: AgentId;
  readonly info: SocketInfo;
  /** Set when the peer has gone. */
  readonly gone: CloseFrame | undefined;
}

export interface MessageRelay<S extends ClientSocket> {
  readonly calls: CallClient;
  readonly gatewayId: string;
  readonly has: (socket: S) => boolean;
  /** All about it, for a host that does not know it. */
  readonly infoOf: (socket: S) => SocketInfo;
  /** The agent has heard of its end; or can't be reached, when there is an error. */
  readonly ended: (socket: S, error?: unknown) => void;
  /** Rule 5: its peer is to be told; the agent hears of its close as of any other. */
  readonly broken: (socket: S, error: CallLost) => void;
}

interface Message {
  readonly number: number;
  readonly data: Uint8Array;
  readonly text: boolean;
  readonly tries: CallTries;
}

/** The client of a message that may have ended its host has gone. */
class ClientGone extends Error {}

export class ClientMessages<S extends ClientSocket> {
  private readonly socket: S;
  private readonly relay: MessageRelay<S>;
  /** Not sent, or to be sent again; oldest first. */
  private waiting: Message[] = [];
  /** Sent ahead and not known to be taken; oldest first. */
  private out: Message[] = [];
  private outBytes = 0;
  private waitingBytes = 0;
  private unanswered = 0;
  private lastNumber = 0;
  /** The last word was that of an agent that keeps the order: more may be sent before the next. */
  private ahead = false;
  /** One is told alone. */
  private telling = false;
  /** Rule 5: nothing more is taken from it. */
  private isBroken = false;

  constructor(socket: S, relay: MessageRelay<S>) {
    this.socket = socket;
    this.relay = relay;
  }

  /** Number of the first message that is not known to be taken. */
  get next(): number {
    return (this.out[0] ?? this.waiting[0])?.number ?? this.lastNumber + 1;
  }

  /** False: too many wait. */
  push(data: Uint8Array, text: boolean): boolean {
    if (this.isBroken) return true;
    if (this.waiting.length >= WAITING_MAX) return false;
    if (this.waitingBytes + data.length > WAITING_BYTES_MAX) return false;
    this.waitingBytes += data.length;
    this.waiting.push({ number: ++this.lastNumber, data, text, tries: new CallTries() });
    this.flow();
    return true;
  }

  /** Sends what may be sent; called whenever something has changed. */
  flow(): void {
    if (this.telling) return;
    if (!this.relay.has(this.socket)) return this.forgetWaiting();
    while (this.ahead && this.hasRoom()) this.offer(this.shift());
    if (this.unanswered > 0) return;
    this.waiting.unshift(...this.out);
    this.out = [];
    this.waitingBytes += this.outBytes;
    this.outBytes = 0;
    if (this.waiting.length > 0 || this.socket.gone !== undefined) void this.tell();
  }

  /** Takes out the first that waits. */
  private shift(): Message {
    const message = this.waiting.shift()!;
    this.waitingBytes -= message.data.length;
    return message;
  }

  private forgetWaiting(): void {
    this.waiting = [];
    this.waitingBytes = 0;
  }

  private hasRoom(): boolean {
    const message = this.waiting[0];
    return (
      message !== undefined &&
      this.out.length < OUT_MAX &&
      this.outBytes < OUT_BYTES_MAX &&
      // Rule 5.
      !message.tries.isOut &&
      // One that goes by the blob store goes alone.
      this.relay.calls.fits(message.data)
    );
  }

  private offer(message: Message): void {
    this.out.push(message);
    this.outBytes += message.data.length;
    this.unanswered++;
    const answered = (reply: CallReply | undefined): void => {
      this.unanswered--;
      if (reply?.kind === "error") this.fail(reply.message);
      this.heard(reply);
      this.flow();
    };
    const { data: body, tries } = message;
    this.relay.calls
      .offer(this.socket.id, this.callOf(message), { body, tries, deadlineMs: HEARD_MS })
      // What can't be read is no answer.
      .then(answered, () => answered(undefined));
  }

  /** Rule 6. */
  private fail(message: string): void {
    const { relay, socket } = this;
    if (relay.has(socket)) relay.ended(socket, new AgentUnreachable({ message }));
  }

  private heard(reply: CallReply | undefined): void {
    if (reply?.kind !== "taken" || reply.next === undefined) {
      this.ahead = false;
      return;
    }
    // Rule 2: those before it are taken too, though their own answers may be missing.
    while (this.out.length > 0 && this.out[0]!.number < reply.next)
      this.outBytes -= this.out.shift()!.data.length;
  }

  /** Rule 3: one at a time, until one is taken by an agent that keeps the order; then the close. */
  private async tell(): Promise<void> {
    const { relay, socket } = this;
    this.telling = true;
    try {
      this.ahead = false;
      while (!this.ahead && relay.has(socket)) {
        const message = this.waiting[0];
        if (message === undefined) {
          await this.tellClose();
          break;
        }
        const reply = await this.askFor(message);
        if (!this.isBroken) this.shift();
        this.ahead = reply?.kind === "taken" && reply.next !== undefined;
      }
    } catch (error) {
      relay.ended(socket, error);
    } finally {
      this.telling = false;
    }
    this.flow();
  }

  private async tellClose(): Promise<void> {
    const { socket, relay } = this;
    const { gone } = socket;
    if (gone === undefined) return;
    const { sid } = socket.info;
    await this.ask({ kind: "close", gateway: relay.gatewayId, sid, ...gone });
    relay.ended(socket);
  }

  /** Rule 5. As `ask`; undefined also when it is given up. */
  private async askFor(message: Message): Promise<CallReply | undefined> {
    const { data: body, tries } = message;
    const beforeRepeat = (): void => {
      if (tries.isSuspect && this.socket.gone !== undefined) throw new ClientGone();
    };
    try {
      return await this.ask(this.callOf(message), { body, tries, beforeRepeat });
    } catch (error) {
      if (error instanceof ClientGone) return undefined;
      if (!(error instanceof CallLost)) throw error;
      this.isBroken = true;
      this.forgetWaiting();
      if (this.socket.gone === undefined) this.relay.broken(this.socket, error);
      return undefined;
    }
  }

  /** Until the host takes it, or closes a socket that it has no agent for any more: then undefined. */
  private async ask(
    call: Call,
    options: Parameters<typeof askHost>[3] = {},
  ): Promise<CallReply | undefined> {
    const { relay, socket } = this;
    while (relay.has(socket)) {
      const reply = await askHost(relay.calls, socket.id, call, options);
      if (reply.kind === "error") throw new AgentUnreachable({ message: reply.message });
      if (reply.kind !== "unknownSocket") return reply;
      await askHost(relay.calls, socket.id, { kind: "resume", socket: relay.infoOf(socket) });
    }
    return undefined;
  }

  private callOf({ number, text }: Message): Call {
    const { gatewayId } = this.relay;
    return { kind: "message", gateway: gatewayId, sid: this.socket.info.sid, text, number };
  }
}
