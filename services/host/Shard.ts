/**
 * One shard that this host owns: its share of the inbox, its calls and its agents. The phases are
 * the claim (`Host`), then start (census, calls, inbox consumer), then hand-over or loss (both
 * here).
 *
 * 1. Calls are answered only while the lease is certainly held, by the local monotonic clock minus
 *    a margin. Within the margin, before another host can have the shard, the host answers
 *    `notHere`. Past the lease's end (the process was frozen or cut off) it answers `notHere` with
 *    `late`: the next owner may have received the same call and run it. The same answer is sent for
 *    a call that had begun on an agent that was then discarded, because its effects may be stored.
 * 2. On loss nothing is sent or acked any more: agents are discarded.
 * 3. On hand-over turns finish, calls are answered, images are stored, and the lease is released
 *    last. While long turns finish, the other agents are served. A call whose turn does not end in
 *    time is answered `late`.
 * 4. A durable input that arrives as a call (`DirectInput`) is accepted only when every stored
 *    input was delivered. A sender that was told that one input is stored, and then sends the next,
 *    has them run in that order.
 */
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import { addressKey, type AgentId, type ShardId } from "../../schemas/Address.ts";
import { isControl, type Call, type SlotCall } from "../../schemas/bus/Call.ts";
import { decodeMessage } from "../../schemas/bus/message.ts";
import { CallEndedProcess, CallInterrupted } from "../../core/errors/errors.ts";
import type { BusMessage } from "../../core/bus/Bus.ts";
import { errorReply, HIDDEN_ERROR } from "../../core/call/remoteError.ts";
import type { Delivery, InboxConsumer } from "../../core/inbox/Inbox.ts";
import type { Lease } from "../../core/lease/Leases.ts";
import type { Meter } from "../../core/telemetry/Usage.ts";
import { answerQuestion } from "../../core/query/answerQuestion.ts";
import { QUESTIONS } from "../../core/query/askHosts.ts";
import { settlesWithin } from "../../core/time/settlesWithin.ts";
import { turnSlicesOf, type TimeSlices } from "../../core/time/TimeSlices.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import type { HostServices } from "./HostServices.ts";
import { hasBlob, wholeCall } from "../../core/call/callBodies.ts";
import { LargeAnswers } from "../../core/call/LargeAnswers.ts";
import { IsolatedSlot } from "./IsolatedSlot.ts";
import { addTraffic } from "./slot/addTraffic.ts";
import { takeCensus } from "./takeCensus.ts";
import { idleLimitMs } from "./load/idleLimit.ts";
import { OpenCalls } from "../../core/call/OpenCalls.ts";
import { Slots } from "./Slots.ts";
import { shardUsage } from "./shardUsage.ts";
import { refuseInput } from "./waitingInputs.ts";
import { isTransient } from "./slotErrors.ts";
import { stackOf } from "../../core/errors/thrown.ts";
import { sleep } from "../../core/time/sleep.ts";

/** Part of the TTL by which a lease is lost before it expires: clocks drift, acks are late. */
export const LEASE_MARGIN = 0.2;
/** The least time that turns have at the end of a hand-over, after the wait for long ones. */
const DRAIN_MS_MIN = 1_000;
/** How often a shard checks whether its last calls are answered, or its lease is renewed. */
const ANSWERED_POLL_MS = 5;

export class Shard {
  readonly shard: ShardId;
  readonly lease: Lease;
  /** Monotonic milliseconds; the lease is certainly held until then. */
  validUntilMs: number;
  private readonly slots: Slots;
  private readonly lost = new AbortController();
  private consumer: InboxConsumer | undefined;
  private unsubscribe: (() => Promise<unknown>) | undefined;
  private unserve: (() => void) | undefined;
  private readonly openCalls: OpenCalls;
  private readonly largeAnswers: LargeAnswers;

  constructor(
    private readonly services: HostServices,
    shard: ShardId,
    lease: Lease,
    validUntilMs: number,
  ) {
    this.largeAnswers = new LargeAnswers(services);
    this.openCalls = new OpenCalls(services.log, () => this.notHere({ begun: true }));
    this.shard = shard;
    this.lease = lease;
    this.validUntilMs = validUntilMs;
    this.slots = new Slots(services, {
      shard,
      epoch: lease.epoch,
      signal: this.lost.signal,
      isHeld: () => this.isHeld,
      isStillOurs: () => this.isHeld || this.awaitIsHeld(),
    });
  }

  get agentsActive(): number {
    let count = 0;
    for (const slot of this.slots.values()) if (slot.agent !== undefined) count++;
    return count;
  }

  /** The cost of an agent in memory. */
  meterOf(id: AgentId): Meter | undefined {
    return this.slots.find(id)?.agent?.parts.meter;
  }

  /** Rejects with `BrokerUnavailable` or `ConsumerTaken`; the caller then releases the shard. */
  async start(gateways: () => ReadonlyArray<string>): Promise<void> {
    const { bus, calls, inbox, config } = this.services;
    const { signal } = this.lost;
    const { shard } = this;
    this.slots.takeCensus = (of) =>
      takeCensus(this.services, {
        shard, gateways: gateways(), signal,
        found: (id, socket) =>
          addressKey(id) === addressKey(of) && this.slots.of(id).addSocket(socket),
      }); // prettier-ignore
    // The quarantine marks decide which kind of slot an agent has.
    const early: Array<Parameters<Slots["meet"]>> = [];
    let found = (...socket: Parameters<Slots["meet"]>): void => void early.push(socket);
    await Promise.all([
      this.slots.quarantine.load(),
      takeCensus(this.services, {
        shard, gateways: gateways(), signal,
        found: (...socket) => found(...socket),
      }),
    ]); // prettier-ignore
    found = (...socket) => this.slots.meet(...socket);
    for (const socket of early) found(...socket);
    // The shard was lost meanwhile. A subscription from now on would answer `notHere` to calls that
    // the next owner runs, and nothing would end it.
    if (this.lost.signal.aborted) return;
    // Alone: another host that is still subscribed has lost its lease, and answers `notHere` (rule
    // 1).
    const { subjects } = config;
    const closers = [subjects.callsOfShard(shard), subjects.controlsOfShard(shard)].map((subject) =>
      bus.subscribe(subject, (message) => this.receive(message), { alone: true }),
    );
    this.unsubscribe = () => Promise.all(closers.map((close) => close()));
    this.unserve = calls?.serveInputs(this.shard, (id, head, body) =>
      this.runDirect(id, head, body),
    );
    const { epoch } = this.lease;
    const onDelivery = (delivery: Delivery): void => {
      if (!this.lost.signal.aborted) this.slots.of(delivery.id).deliver(delivery);
    };
    this.consumer = await inbox.consume(this.shard, onDelivery, { epoch, signal });
    if (this.lost.signal.aborted) await this.consumer.stop();
  }

  /** The shard is lost (rule 2), or handed over. */
  drop(): void {
    this.lost.abort();
    this.unserve?.();
    void this.unsubscribe?.();
    // Before the lease is released, if it is: nothing else notifies the callers
    // (`Gateway.changed`).
    this.openCalls.interrupt();
    this.slots.discard();
    this.largeAnswers.end();
    // A failure here has no effect: unacked inputs are delivered to the next owner.
    this.consumer?.stop().catch(() => undefined);
  }

  /** Rule 3, up to the release of the lease, which `Host` does. */
  async handOver(slices: Pick<TimeSlices, "yield">): Promise<void> {
    const { time, config, log } = this.services;
    const endMs = time.monotonicMs() + config.drainTimeoutMs;
    await this.slots.drainLong(slices, config.drainTimeoutMs);
    this.unserve?.();
    // A call that is on its way to this host reaches no other: it is still accepted.
    await this.unsubscribe?.();
    await this.consumer?.stop().catch(() => undefined);
    const leftMs = Math.max(DRAIN_MS_MIN, endMs - time.monotonicMs());
    if (!(await settlesWithin(time, leftMs, this.drain(slices))))
      log.warn("turns did not end in time; they will run again on the next host", {
        shard: this.shard,
      });
    // Also ends what an unfinished start has begun since.
    this.drop();
  }

  /**
   * Resolves when no turn runs, every accepted call is answered, and no agent is in memory; or when
   * it was given up.
   */
  private async drain(slices: Pick<TimeSlices, "yield">): Promise<void> {
    for (;;) {
      await Promise.all([...this.slots.values()].map((slot) => slot.drain(slices)));
      if (this.openCalls.size === 0 || this.lost.signal.aborted) return;
      await sleep(this.services.time, ANSWERED_POLL_MS);
    }
  }

  /** Hibernates idle agents, sooner when memory is full; removes empty slots. */
  async sweep(slices: Pick<TimeSlices, "yield">): Promise<void> {
    const { time, memoryInUse } = this.services;
    const limitMs = (): number =>
      memoryInUse === undefined ? Infinity : idleLimitMs(memoryInUse());
    let idleMs = limitMs();
    for (const slot of this.slots.values()) {
      const pause = slices.yield();
      if (pause !== undefined) await pause;
      // Rule 2, before the loss is known: a host that was frozen would store an image of an agent
      // that may have been erased.
      if (!this.isHeld) return;
      if (slot.hibernate(time.monotonicMs(), idleMs)) idleMs = limitMs();
      this.slots.removeEmpty(slot);
    }
    this.slots.lookAtQuarantine();
  }

  /** Sends its state to the clients of every agent in memory, after frames were lost. */
  resendStates(): void {
    for (const slot of this.slots.values()) slot.agent?.keeping.tellAgain();
  }

  /** Called for new code: every agent leaves memory as soon as it can. */
  async recycle(): Promise<void> {
    this.slots.lookAtQuarantine();
    await Promise.all([...this.slots.values()].map((slot) => slot.recycle()));
  }

  /** A gateway is gone with its sockets: each is closed with 1006, as for a peer that vanished. */
  gatewayGone(gateway: string): void {
    const close = { kind: "close", code: 1006, reason: "", wasClean: false } as const;
    const failed = (error: unknown): void =>
      this.services.log.warn("a lost socket could not be closed", { error: String(error) });
    for (const slot of this.slots.values())
      for (const { sid } of slot.socketsOf(gateway))
        turnSlicesOf(this.services.time).run(() => {
          if (this.lost.signal.aborted) return;
          const closed = this.slots.of(slot.id).call({ ...close, gateway, sid }, new Uint8Array(0));
          closed.catch(failed);
        });
  }

  /** The agent is to run in a process of its own. */
  isolated(id: AgentId): void {
    this.slots.isolated(id);
  }

  /** An isolated agent runs here again. */
  returned(id: AgentId): void {
    this.slots.returned(id);
  }

  private receive(message: BusMessage): void {
    const { reply } = message;
    const respond = (answer: CallAnswer): Promise<void> | undefined =>
      reply === undefined ? undefined : this.respond(reply, answer);
    this.openCalls.run(() => this.answer(message), respond);
  }

  /** Runs an input from a gateway of this process, without a message over the bus. */
  private runDirect(id: AgentId, head: InboxHead, body: Uint8Array): Promise<CallAnswer> {
    return new Promise((resolve) =>
      this.openCalls.run(
        () => this.run(id, { kind: "input", head }, body),
        (answer) => {
          resolve(answer);
          return undefined;
        },
      ),
    );
  }

  private async answer(message: BusMessage): Promise<CallAnswer> {
    const { subjects } = this.services.config;
    const id = subjects.addressOf(message.subject);
    const { head, body } = decodeMessage<Call>(message.data);
    // The broker's permissions tell the two by their subjects.
    if (isControl(head) !== subjects.isControl(message.subject)) return misdirected(head);
    return this.run(id, head, body);
  }

  private async run(id: AgentId, call: Call, body: Uint8Array): Promise<CallAnswer> {
    const { log, time } = this.services;
    // Before anything is checked, so that nothing is old when the call begins. An input waits in
    // its agent's mailbox.
    const pause = call.kind === "input" ? undefined : turnSlicesOf(time).turn(id);
    if (pause !== undefined) await pause;
    // Rule 1.
    if (!this.isHeld || this.lost.signal.aborted) return this.notHere();
    if (isForShard(call) || id.class === QUESTIONS.class) return this.answerItself(id, call);
    if (call.kind === "erase") this.slots.beforeErasure(id);
    try {
      const whole = hasBlob(call) ? await this.bodyOf(id, call, body) : body;
      const slot = this.slots.of(id);
      if (call.kind === "input") {
        const full = refuseInput(this.services, id, slot.outstanding.size);
        if (full !== undefined) return full;
        // Rule 4.
        if (this.consumer?.caughtUp !== true) return this.notHere();
      }
      const answer = await slot.call(call, whole);
      // The call is done, but the lease may be lost: the caller decides whether to ask the next
      // owner.
      const isOurs = this.isHeld || (await this.awaitIsHeld());
      return isOurs ? answer : this.notHere({ begun: true });
    } catch (error) {
      if (error instanceof CallInterrupted)
        return this.notHere({ begun: true, ended: error instanceof CallEndedProcess });
      if (isTransient(error) || this.lost.signal.aborted) return this.notHere();
      // This call caused the agent's quarantine.
      if (this.slots.quarantine.of(id) !== undefined) return this.slots.of(id).call(call, body);
      log.error("an agent could not answer", { ...id, error: stackOf(error) });
      return { reply: isOfCode(call) ? errorReply(error) : HIDDEN_ERROR };
    }
  }

  /** Answers what no agent is asked. */
  private answerItself(id: AgentId, call: Call): CallAnswer | Promise<CallAnswer> {
    const { services, slots } = this;
    // Logins that may only read ask questions at this address.
    if (id.class === QUESTIONS.class)
      return call.kind === "query" ? answerQuestion(services, call) : { reply: HIDDEN_ERROR };
    if (call.kind === "usage")
      return { reply: { kind: "result", value: shardUsage(services, slots.values()) } };
    if (call.kind === "connections") return addTraffic(services, slots.connections(id, call));
    if (call.kind === "release") return slots.release(id);
    return { reply: HIDDEN_ERROR };
  }

  /** The process of an isolated agent reads the body. */
  private async bodyOf(id: AgentId, call: Call, body: Uint8Array): Promise<Uint8Array> {
    if (this.slots.of(id) instanceof IsolatedSlot) return body;
    return wholeCall(this.services.blobs, call, body);
  }

  /** Rule 1. No answer would be as safe, but the caller would wait: no other host has the call. */
  private notHere({ begun = false, ended = false } = {}): CallAnswer {
    const { time, leases } = this.services;
    const isLate = begun || time.monotonicMs() >= this.validUntilMs + leases.ttlMs * LEASE_MARGIN;
    return { reply: { kind: "notHere", ...(isLate && { late: true }), ...(ended && { ended }) } };
  }

  /**
   * Rule 1. A stalled process may be past the margin and still own the lease. Then no other host
   * answers, and the caller sees no change of owner. So the next renewal decides, or the loss.
   */
  private async awaitIsHeld(): Promise<boolean> {
    const { time } = this.services;
    while (!this.isHeld) {
      if (this.lost.signal.aborted) return false;
      await sleep(time, ANSWERED_POLL_MS);
    }
    return true;
  }

  /** Whether the lease is certainly held, by the local clock. */
  private get isHeld(): boolean {
    return this.services.time.monotonicMs() < this.validUntilMs;
  }

  private async respond(subject: string, answer: CallAnswer): Promise<void> {
    const { bus } = this.services;
    // Nothing that is sent to a new socket may overtake the reply that opens it.
    const send = answer.reply.kind === "connected" ? bus.publish : bus.answer;
    const data = this.largeAnswers.encode(answer);
    send(subject, data instanceof Uint8Array ? data : await data);
  }
}

/** A caller of an older release sends every call on one subject. */
const misdirected = ({ kind }: Call): CallAnswer => ({
  reply: {
    kind: "error",
    name: "TypeError",
    message: `A call of kind ${kind} does not arrive on this subject: is its sender of an older release?`,
  },
});

const isForShard = (call: Call): call is Exclude<Call, SlotCall> =>
  call.kind === "usage" ||
  call.kind === "connections" ||
  call.kind === "query" ||
  call.kind === "release";

/** Calls of stubs, `getAgentByName` and commands: the installation's code may see the error. */
const isOfCode = ({ kind }: Call): boolean =>
  kind === "rpc" ||
  kind === "durable" ||
  kind === "target" ||
  kind === "state" ||
  kind === "child" ||
  kind === "restore";
