/**
 * The slot of an agent that runs in a separate process, because it has ended or held the process of
 * others: passes its inputs and calls there. Owned by `Shard` in the place of an `AgentSlot`.
 *
 * 1. The agent's writes are fenced by the shard's epoch as ever: the process appends with it, and a
 *    later owner's claim refuses it.
 * 2. An input that was delivered and not acked is never forgotten. When the process ends, the
 *    inputs that it had are passed again to the next one, in stored order.
 * 3. Nothing is held but sequence numbers, and the process reads what they name. At most
 *    `PASSED_MAX` are under way.
 * 4. A process that ended has taken what it knew of its sockets with it. Their gateways are asked
 *    for them again, and the next process receives them.
 * 5. A direct input is left to its gateway, which stores it.
 */
import type { SlotCall } from "../../schemas/bus/Call.ts";
import { socketKey, type SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import {
  addressKey,
  shardOf,
  type AgentId,
  type Sequence,
  type ShardId,
} from "../../schemas/Address.ts";
import { SparseMap } from "../../core/collections/sparse.ts";
import { AgentDiscarded, CallEndedProcess } from "../../core/errors/errors.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { hasBlob, wholeCall } from "../../core/call/callBodies.ts";
import type { InputHandle } from "../../core/inbox/Inbox.ts";
import { sleep } from "../../core/time/sleep.ts";
import { AgentSlot, type SlotContext } from "./AgentSlot.ts";
import type { HostServices } from "./HostServices.ts";
import type { Delivered } from "./slot/OutstandingInputs.ts";
import { QuarantinedSlot, type LeftBehind } from "./QuarantinedSlot.ts";
import type {
  IsolatedAsk,
  IsolatedOwner,
  IsolatedReply,
  Isolation,
} from "../../core/input/Isolation.ts";

/** Enough for an agent whose turns wait, and little to hold for one that is flooded. */
const PASSED_MAX = 16;
/**
 * An input whose process ended is passed again after this. The next process starts no sooner, but
 * without a control process nothing else would pause (`ChannelIsolation`).
 */
const ENDED_PAUSE_MS = 200;

export class IsolatedSlot {
  /** The agent is in the memory of another process. */
  readonly agent = undefined;
  /** In stored order. */
  readonly outstanding = new SparseMap<Sequence, InputHandle>();
  private readonly passed = new Set<Sequence>();
  readonly sockets = new SparseMap<string, SocketInfo>();
  private successor: Promise<AgentSlot> | undefined;
  /** Rule 4. */
  private counting: "no" | "once" | "again" = "no";
  /** Nothing is passed any more. */
  private over = false;
  /** Erasures under way. Inputs that arrive meanwhile wait for the agent's next life. */
  private erasing = 0;
  /** Calls under way. One may leave a socket, which the shard has to find in this slot. */
  private calls = 0;

  constructor(
    readonly id: AgentId,
    private readonly context: SlotContext,
    private readonly isolation: Isolation,
  ) {}

  get empty(): boolean {
    return (
      this.outstanding.size === 0 &&
      this.sockets.size === 0 &&
      this.calls === 0 &&
      this.successor === undefined
    );
  }

  deliver(delivery: Delivered): void {
    if (this.successor !== undefined)
      return void this.successor.then((slot) => slot.deliver(delivery), skip);
    const { data: _data, ...handle } = delivery;
    this.outstanding.set(handle.seq, handle);
    this.pump();
  }

  /**
   * A body in the blob store is left to the process. Rejects with `AgentDiscarded`,
   * `CallEndedProcess` or the agent's error.
   */
  async call(call: SlotCall, body: Uint8Array): Promise<CallAnswer> {
    this.calls++;
    try {
      return await this.answer(call, body);
    } finally {
      this.calls--;
    }
  }

  private async answer(call: SlotCall, body: Uint8Array): Promise<CallAnswer> {
    if (this.successor !== undefined) {
      const whole = await wholeCall(this.context.services.blobs, call, body);
      return (await this.successor).call(call, whole);
    }
    // Rule 5.
    if (call.kind === "input") return { reply: { kind: "notHere" } };
    if (call.kind === "close") this.sockets.delete(socketKey(call));
    if (call.kind === "resume") this.sockets.set(socketKey(call.socket), call.socket);
    const own = hasBlob(call) ? undefined : body;
    const ask = { kind: "call", data: toText(encodeMessage(call, own)) } as const;
    const reply = await (call.kind === "erase" ? this.erase(ask) : this.ask(ask));
    if (reply.kind === "answered") {
      const { head, body: bytes } = decodeMessage<CallReply>(toBytes(reply.data));
      if (call.kind === "connect" && head.kind === "connected" && head.close === undefined) {
        const info = { ...call.socket, attachment: head.attachment };
        this.sockets.set(socketKey(info), info);
      }
      return { reply: head, body: bytes };
    }
    if (reply.kind === "failed" && !reply.transient) throw new Error(reply.message);
    if (reply.kind === "ended") throw new CallEndedProcess();
    throw new AgentDiscarded();
  }

  addSocket(info: SocketInfo): void {
    this.sockets.set(socketKey(info), info);
    if (!this.over) void this.ask({ kind: "sockets", sockets: [info] });
  }

  socketsOf(gateway: string): ReadonlyArray<SocketInfo> {
    return [...this.sockets.values()].filter((info) => info.gateway === gateway);
  }

  /** The process decides when its agent leaves memory. */
  hibernate(): boolean {
    return false;
  }

  async recycle(): Promise<void> {}

  /** Stops inputs that have not begun, and waits until the agent has left its process. */
  async drain(): Promise<void> {
    this.over = true;
    await this.ask({ kind: "drain" });
    this.isolation.lost(this.id);
  }

  /** Another slot takes the place of this one; the agent's process is left as it is. */
  leave(): LeftBehind {
    this.over = true;
    const left = { inputs: [...this.outstanding.values()], sockets: [...this.sockets.values()] };
    this.outstanding.clear();
    return left;
  }

  /** The shard is lost: nothing is sent or acked any more. */
  discard(): void {
    this.over = true;
    this.outstanding.clear();
    this.isolation.lost(this.id);
  }

  /** The agent runs in this process again, in the slot that `make` returns. */
  succeed(make: () => AgentSlot): Promise<AgentSlot> {
    return (this.successor ??= this.drained().then((sockets) => {
      const slot = make();
      for (const info of sockets) slot.addSocket(info);
      for (const handle of this.outstanding.values()) slot.deliver(handle);
      this.outstanding.clear();
      this.isolation.left(this.id);
      return slot;
    }));
  }

  private async drained(): Promise<ReadonlyArray<SocketInfo>> {
    this.over = true;
    const reply = await this.ask({ kind: "drain" });
    if (reply.kind === "drained") return reply.sockets;
    // Rule 4.
    await this.context.takeCensus?.(this.id).catch(() => undefined);
    return [...this.sockets.values()];
  }

  /**
   * The process drops the inputs and sockets that it has, and this slot those that it has not
   * passed: they would begin a new life of the agent.
   */
  private async erase(ask: IsolatedAsk): Promise<IsolatedReply> {
    const before = [...this.outstanding.keys()];
    this.erasing++;
    try {
      const reply = await this.ask(ask);
      if (reply.kind === "answered") {
        for (const seq of before) this.settle(seq, (handle) => handle.ack());
        this.sockets.clear();
      }
      return reply;
    } finally {
      this.erasing--;
      this.pump();
    }
  }

  private pump(): void {
    if (this.erasing > 0) return;
    for (const [seq, handle] of this.outstanding) {
      if (this.over || this.passed.size >= PASSED_MAX) return;
      if (this.passed.has(seq)) continue;
      this.passed.add(seq);
      void this.pass(handle).finally(() => {
        this.passed.delete(seq);
        this.pump();
      });
    }
  }

  private async pass({ seq, deliveries }: InputHandle): Promise<void> {
    const reply = await this.ask({ kind: "deliver", seq, deliveries });
    if (this.context.signal.aborted) return;
    if (reply.kind === "acked") this.settle(seq, (handle) => handle.ack());
    else if (reply.kind === "nacked") this.settle(seq, (handle) => handle.nak(reply.delayMs));
    // Rule 2.
    else await sleep(this.context.services.time, ENDED_PAUSE_MS);
  }

  /** By the latest handle: a redelivery replaces it. */
  private settle(seq: Sequence, how: (handle: InputHandle) => void): void {
    const handle = this.outstanding.get(seq);
    this.outstanding.delete(seq);
    if (handle !== undefined) how(handle);
  }

  /** Rule 4. Repeated if a process ends meanwhile: it may have received sockets found before. */
  private async countSockets(): Promise<void> {
    const isUnderWay = this.counting !== "no";
    this.counting = isUnderWay ? "again" : "once";
    while (!isUnderWay && this.counting !== "no" && !this.over) {
      this.counting = "once";
      // If the broker is unavailable, gateways announce their sockets when it is back.
      await this.context.takeCensus?.(this.id).catch(() => undefined);
      if (this.counting === "once") this.counting = "no";
    }
  }

  private get owner(): IsolatedOwner {
    const { epoch, services } = this.context;
    return { epoch, host: services.config.hostId };
  }

  private async ask(ask: IsolatedAsk): Promise<IsolatedReply> {
    const reply = await this.isolation.ask(this.id, this.owner, ask);
    if (reply.kind === "ended") void this.countSockets();
    if (reply.kind === "condemned" && !this.over)
      this.context.quarantine(this.id, { kind: reply.why, reason: reply.reason });
    return reply;
  }
}

/** An agent's slot in a shard, in whichever process the agent runs. */
export type Slot = AgentSlot | IsolatedSlot | QuarantinedSlot;

/** Undefined: the agent is not isolated. */
export function isolatedSlot(id: AgentId, context: SlotContext): IsolatedSlot | undefined {
  const { isolation, databases } = context.services;
  if (isolation?.holds(id) !== true) return undefined;
  // Its process writes in the same epoch: when it returns, this image would count as the latest.
  databases.discard(id);
  return new IsolatedSlot(id, context, isolation);
}

/** Has agents leave their shards for processes of their own, and return. */
export function followIsolation(
  { isolation, config }: Pick<HostServices, "isolation" | "config">,
  ownedShard: (shard: ShardId) => IsolatingShard | undefined,
): void {
  isolation?.onIsolate((id) => ownedShard(shardOf(id, config.shards))?.isolated(id));
  isolation?.onReturn((id) => {
    const shard = ownedShard(shardOf(id, config.shards));
    if (shard === undefined) isolation.left(id);
    else shard.returned(id);
  });
}

interface IsolatingShard {
  readonly isolated: (id: AgentId) => void;
  readonly returned: (id: AgentId) => void;
}

/** An isolated agent runs among the others again: its slot in `slots` is replaced. */
export function returnIsolated(slots: Map<string, Slot>, id: AgentId, context: SlotContext): void {
  const key = addressKey(id);
  // An agent without a slot may still do something by itself in its process.
  const slot = slots.get(key) ?? isolatedSlot(id, context);
  // Once it is released it is tried alone first.
  if (slot instanceof QuarantinedSlot && slot.mark.kind === "kills") return;
  if (!(slot instanceof IsolatedSlot)) return context.services.isolation?.left(id);
  slots.set(key, slot);
  void slot
    .succeed(() => new AgentSlot(id, context))
    .then((next) => (slots.get(key) === slot ? slots.set(key, next) : next.discard()));
}

const skip = (): void => undefined;
const toText = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
const toBytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "base64"));
