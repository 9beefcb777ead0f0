/**
 * One shard that this host owns: its lane of the inbox, its calls, its agents. Phases: claimed
 * (`Host`, before) → start (census, calls, consumer) → hand-over or loss (here).
 *
 * 1. Calls are answered only while the lease is known to be held, by the local monotonic clock with a
 *    margin; in the margin, before anyone else can have the shard, the host says `notHere`. Past it
 *    (frozen, cut off) it says so `late`: the next owner may hear the same call, and run it. So too of a call that
 *    had begun on an agent that was then discarded: what it did may be stored.
 * 2. On loss nothing leaves any more: agents are discarded, nothing is acked.
 * 3. On hand-over turns finish, calls are answered, images are kept, and the lease is released last. A call whose turn
 *    does not end in time is answered all the same: `late`.
 * 4. A durable input that comes as a call (`DirectInput`) is taken only when every stored one has been handed on: who was
 *    told that an input is stored, and sends the next, has them run in that order.
 */
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import { addressKey, type AgentId, type ShardId } from "../../schemas/Address.ts";
import {
  ANSWER_BLOBS,
  CALL_BLOBS,
  decodeMessage,
  encodeMessage,
  type Call,
  type CallReply,
  type CensusReply,
  type CensusRequest,
} from "../../schemas/Call.ts";
import { CallInterrupted } from "../../core/errors/errors.ts";
import type { BusMessage } from "../../core/bus/Bus.ts";
import { LinkedList } from "../../core/collections/LinkedList.ts";
import { encodeError } from "../../core/call/remoteError.ts";
import type { Delivery, InboxConsumer } from "../../core/inbox/Inbox.ts";
import type { Lease } from "../../core/lease/Leases.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { AgentSlot } from "./AgentSlot.ts";
import type { Breather } from "./Breather.ts";
import type { HostServices } from "./HostServices.ts";
import { roomMaker, type MakeRoom } from "./makeRoom.ts";
import { idleLimitMs } from "./idleLimit.ts";
import { isTransient } from "./slotErrors.ts";

/** The shard starts without a gateway that does not answer the census in this time. */
const CENSUS_TIMEOUT_MS = 1000;
/** And asks it again so often, for a socket that never speaks is not heard of otherwise; longer than any lease, and then it is gone. */
const CENSUS_RETRIES_MAX = 60;
/** Part of the TTL by which a lease counts as lost before it expires: clocks' rates and delays. */
export const LEASE_MARGIN = 0.2;
/** How often a shard that is handed over looks whether its last calls are answered. */
const ANSWERED_POLL_MS = 5;

const encoder = new TextEncoder();

export class Shard {
  readonly shard: ShardId;
  readonly lease: Lease;
  /** Monotonic; the lease is surely ours until then. */
  validUntilMs: number;
  private readonly services: HostServices;
  private readonly slots = new Map<string, AgentSlot>();
  private readonly lost = new AbortController();
  private readonly makeRoom: MakeRoom;
  private consumer: InboxConsumer | undefined;
  private unsubscribe: (() => Promise<void>) | undefined;
  private unserve: (() => void) | undefined;
  /** Calls that were taken and not answered yet. */
  private answering = 0;
  /** Tell their callers that nobody will. */
  private readonly interrupts = new LinkedList<() => void>();

  constructor(services: HostServices, shard: ShardId, lease: Lease, validUntilMs: number) {
    this.services = services;
    this.makeRoom = roomMaker(services, this.slots, () => this.isHeld);
    this.shard = shard;
    this.lease = lease;
    this.validUntilMs = validUntilMs;
  }

  get agentsActive(): number {
    let count = 0;
    for (const slot of this.slots.values()) if (slot.agent !== undefined) count++;
    return count;
  }

  /** Rejects with `BrokerUnavailable` or `LaneTaken`; the caller then gives the shard up. */
  async start(gateways: ReadonlyArray<string>): Promise<void> {
    const { bus, calls, inbox, config } = this.services;
    await Promise.all(gateways.map((gateway) => this.census(gateway)));
    // Lost meanwhile: who subscribed now would say `notHere` for good, to calls that the next owner runs, and is not heard.
    if (this.lost.signal.aborted) return;
    // Alone: another host that listens still has lost its lease, and says `notHere` (rule 1).
    this.unsubscribe = bus.subscribe(
      config.subjects.callsOfShard(this.shard),
      (message) => this.receive(message),
      { alone: true },
    );
    this.unserve = calls?.serveInputs(this.shard, (id, head, body) => this.take(id, head, body));
    const { epoch } = this.lease;
    const onDelivery = (delivery: Delivery): void => {
      if (!this.lost.signal.aborted) this.slot(delivery.id).deliver(delivery);
    };
    const { signal } = this.lost;
    this.consumer = await inbox.consume(this.shard, onDelivery, { epoch, signal });
    if (this.lost.signal.aborted) await this.consumer.stop();
  }

  /** Rule 2. */
  drop(): void {
    this.lost.abort();
    this.unserve?.();
    void this.unsubscribe?.();
    // Before the lease is released, if it is: callers are told nothing else (`Gateway.changed`).
    for (const interrupt of this.interrupts.drain()) interrupt();
    for (const slot of this.slots.values()) slot.discard();
    this.slots.clear();
    // Its failure changes nothing: what is not acked goes to the next owner.
    this.consumer?.stop().catch(() => undefined);
  }

  /** Rule 3, up to the release of the lease, which is the host's. */
  async handOver(breather: Breather): Promise<void> {
    const { time, config, log } = this.services;
    this.unserve?.();
    // A call that is on its way to us reaches nobody else: it is still taken.
    await this.unsubscribe?.();
    await this.consumer?.stop().catch(() => undefined);
    const drained = this.drain(breather);
    let cancel: (() => void) | undefined;
    const late = new Promise<"late">((resolve) => {
      cancel = time.after(config.drainTimeoutMs, () => resolve("late"));
    });
    if ((await Promise.race([drained, late])) === "late")
      log.warn("turns did not end in time; they will run again on the next host", {
        shard: this.shard,
      });
    cancel?.();
    // Also what a start that is not through yet has begun since.
    this.drop();
  }

  /** Resolves when no turn runs, every call that was taken is answered, and no agent is in memory. */
  private async drain(breather: Breather): Promise<void> {
    for (;;) {
      await Promise.all(
        [...this.slots.values()].map((slot) => slot.drain(() => breather.breathe())),
      );
      if (this.answering === 0) return;
      await new Promise<void>((resolve) => this.services.time.after(ANSWERED_POLL_MS, resolve));
    }
  }

  /** Lets idle agents leave memory, sooner when it is full; forgets empty slots. */
  async sweep(breather: Breather): Promise<void> {
    const { time, memoryInUse } = this.services;
    const limitMs = (): number =>
      memoryInUse === undefined ? Infinity : idleLimitMs(memoryInUse());
    let idleMs = limitMs();
    for (const [key, slot] of this.slots) {
      await breather.breathe();
      // Rule 2, before the loss is known: who was frozen would store an image of what may be erased by now.
      if (!this.isHeld) return;
      if (slot.hibernate(time.monotonicMs(), idleMs)) idleMs = limitMs();
      if (slot.empty) this.slots.delete(key);
    }
  }

  /** To the clients of every agent in memory: frames were lost. */
  tellStates(): void {
    for (const slot of this.slots.values()) slot.agent?.sockets.tellState();
  }

  /** New code: every agent leaves memory as soon as it can. */
  async recycle(): Promise<void> {
    await Promise.all([...this.slots.values()].map((slot) => slot.recycle()));
  }

  /** A gateway is gone with its sockets: each is closed as a peer that vanished. */
  gatewayGone(gateway: string): void {
    for (const slot of this.slots.values())
      for (const { sid } of slot.socketsOf(gateway))
        slot
          .call(
            { kind: "close", gateway, sid, code: 1006, reason: "", wasClean: false },
            new Uint8Array(0),
          )
          .catch((error: unknown) =>
            this.services.log.warn("a lost socket could not be closed", { error: String(error) }),
          );
  }

  private slot(id: AgentId): AgentSlot {
    const key = addressKey(id);
    let slot = this.slots.get(key);
    if (slot === undefined) {
      slot = new AgentSlot(id, {
        services: this.services,
        epoch: this.lease.epoch,
        signal: this.lost.signal,
        isStillOurs: () => this.isHeld || this.isStillOurs(),
        makeRoom: this.makeRoom,
      });
      this.slots.set(key, slot);
    }
    return slot;
  }

  private receive(message: BusMessage): void {
    const { reply } = message;
    const tell = (answer: CallAnswer): Promise<void> | undefined =>
      reply === undefined ? undefined : this.respond(reply, answer);
    this.track(() => this.answer(message), tell);
  }

  /** From a gateway of this process, without a message. */
  private take(id: AgentId, head: InboxHead, body: Uint8Array): Promise<CallAnswer> {
    return new Promise((resolve) =>
      this.track(
        () => this.run(id, { kind: "input", head }, body),
        (answer) => {
          resolve(answer);
          return undefined;
        },
      ),
    );
  }

  /** Counts a call until it is answered, and answers it should the shard be lost first. */
  private track(
    run: () => Promise<CallAnswer>,
    tellCaller: (answer: CallAnswer) => Promise<void> | undefined,
  ): void {
    let answered = false;
    const failed = (error: unknown): void =>
      this.services.log.error("a call failed", { error: String(error) });
    const tell = (answer: CallAnswer): Promise<void> | undefined => {
      if (answered) return undefined;
      answered = true;
      try {
        return tellCaller(answer)?.catch(failed);
      } catch (error) {
        failed(error);
        return undefined;
      }
    };
    const interrupt = this.interrupts.add(() => void tell(this.notHere({ begun: true })));
    const over = (): void => {
      this.answering--;
      interrupt.leave();
    };
    const end = (answer: CallAnswer): void => {
      const told = tell(answer);
      if (told === undefined) over();
      else void told.then(over);
    };
    this.answering++;
    run().then(end, (error: unknown) => {
      failed(error);
      end({ reply: { kind: "error", ...HIDDEN } });
    });
  }

  private async answer(message: BusMessage): Promise<CallAnswer> {
    const id = this.services.config.subjects.addressOf(message.subject);
    const { head, body } = decodeMessage<Call>(message.data);
    return this.run(id, head, body);
  }

  private async run(id: AgentId, call: Call, body: Uint8Array): Promise<CallAnswer> {
    const { blobs, log } = this.services;
    // Rule 1.
    if (!this.isHeld || this.lost.signal.aborted) return this.notHere();
    // Not before those that were stored before it (rule 4).
    if (call.kind === "input" && this.consumer?.caughtUp !== true) return this.notHere();
    try {
      const blob = "blob" in call ? call.blob : undefined;
      // Callers may be gateways, which may not read what agents have stored.
      if (blob !== undefined && !blob.startsWith(CALL_BLOBS))
        throw new Error("a call names a blob that holds no call's body");
      const whole = blob === undefined ? body : await blobs.get(blob);
      if (whole === undefined) throw new Error("the body of a call is gone");
      const answer = await this.slot(id).call(call, whole);
      // Done, and not ours to tell any more: the caller decides whether to ask the next owner.
      const isOurs = this.isHeld || (await this.isStillOurs());
      return isOurs ? answer : this.notHere({ begun: true });
    } catch (error) {
      if (error instanceof CallInterrupted) return this.notHere({ begun: true });
      if (isTransient(error) || this.lost.signal.aborted) return this.notHere();
      log.error("an agent could not answer", { ...id, error: describe(error) });
      return { reply: { kind: "error", ...(isOfCode(call) ? encodeError(error) : HIDDEN) } };
    }
  }

  /** Rule 1. Silence would do for the caller's safety, and have it wait where nobody else hears the call. */
  private notHere({ begun = false } = {}): CallAnswer {
    const { time, leases } = this.services;
    const isLate = begun || time.monotonicMs() >= this.validUntilMs + leases.ttlMs * LEASE_MARGIN;
    return { reply: { kind: "notHere", ...(isLate ? { late: true } : {}) } };
  }

  /**
   * Rule 1. A stalled process may find its lease late and still its own: then nobody else answers, and the
   * caller, who sees no change of owners, would wait in vain. So its next renewal decides, or its loss.
   */
  private async isStillOurs(): Promise<boolean> {
    const { time } = this.services;
    while (!this.isHeld) {
      if (this.lost.signal.aborted) return false;
      await new Promise<void>((resolve) => time.after(ANSWERED_POLL_MS, resolve));
    }
    return true;
  }

  /** Surely, by the local clock. */
  private get isHeld(): boolean {
    return this.services.time.monotonicMs() < this.validUntilMs;
  }

  private async respond(subject: string, { reply, body }: CallAnswer): Promise<void> {
    const { bus, blobs, time } = this.services;
    const bytes = typeof body === "string" ? encoder.encode(body) : body;
    const data = encodeMessage(reply, bytes);
    // Nothing that is sent to a new socket may overtake the word that there is one.
    const send = reply.kind === "connected" ? bus.publish : bus.answer;
    if (data.length <= bus.payloadBytesMax) return send(subject, data);
    if (!hasBody(reply) || bytes === undefined) {
      const message = `The result is ${data.length} bytes; the broker's limit is ${bus.payloadBytesMax}`;
      return bus.publish(subject, encodeMessage({ kind: "error", name: "RangeError", message }));
    }
    const blob = `${ANSWER_BLOBS}${time.id()}`;
    await blobs.put(blob, bytes);
    bus.publish(subject, encodeMessage({ ...reply, blob }));
  }

  private censusLater(gateway: string, retries: number): void {
    const { time, log } = this.services;
    if (retries === 0) return;
    time.after(CENSUS_TIMEOUT_MS, () => {
      if (this.lost.signal.aborted) return;
      this.census(gateway, retries).catch((error: unknown) =>
        log.warn("a gateway's sockets could not be asked for", { gateway, error: String(error) }),
      );
    });
  }

  /** Asks one gateway for its sockets of this shard's agents. */
  private async census(gateway: string, retries = CENSUS_RETRIES_MAX): Promise<void> {
    const { bus, config } = this.services;
    const subject = config.subjects.gateway(gateway, "census");
    let request: CensusRequest = { shard: this.shard };
    for (;;) {
      const reply = await bus.request(subject, encodeMessage(request), {
        timeoutMs: CENSUS_TIMEOUT_MS,
      });
      if (reply._tag !== "Reply") return this.censusLater(gateway, retries - 1);
      const { head } = decodeMessage<CensusReply>(reply.data);
      for (const { agent, socket } of head.sockets)
        this.slot({ class: agent[0], name: agent[1] } as AgentId).addSocket(socket);
      if (head.next === undefined) return;
      request = { shard: this.shard, cursor: head.next };
    }
  }
}

const hasBody = ({ kind }: CallReply): boolean =>
  kind === "response" || kind === "piece" || kind === "done" || kind === "forward";

/** A stub's call and `getAgentByName` are made by code of the installation, which may know what failed. */
const isOfCode = ({ kind }: Call): boolean =>
  kind === "rpc" || kind === "state" || kind === "child";
const HIDDEN = { name: "Error", message: "Internal Server Error" };

const describe = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error);
