/**
 * One agent's place on the host that owns its shard, while it has anything here: it activates the agent
 * when something comes for it, feeds it, snapshots it, and lets it go.
 *
 * 1. At most one activation and one `ActiveAgent` at a time.
 * 2. An input delivered and not acked is never forgotten: when the agent is discarded while the shard is
 *    still ours, its inputs are begun again on a fresh one, in stored order.
 * 3. A damaged journal quarantines the agent: nothing runs and nothing is acked until an operator
 *    acts; its inputs stay stored and other agents are not touched (I12).
 *
 * Owned by `Shard`.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { AgentCall, Call, SocketInfo } from "../../schemas/Call.ts";
import { CorruptFrame, UnknownVersion } from "../../schemas/Frame.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { AGENT_STATIC_OPTIONS_DEFAULT } from "../../core/agent/AgentStaticOptions.ts";
import type { Delivery } from "../../core/inbox/Inbox.ts";
import type { AppendResult } from "../../core/journal/Journal.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { socketKey } from "../../core/runtime/AgentSockets.ts";
import { DirectInput, type DirectEnd } from "../../core/input/DirectInput.ts";
import { handleCall } from "../../core/runtime/handleCall.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { Mailbox } from "../../core/input/Mailbox.ts";
import type { InputHandle } from "../../core/inbox/Inbox.ts";
import { abortFamily } from "../../core/runtime/subAgentCalls.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { activate } from "./activate.ts";
import type { AgentKeeper, Ownership } from "./AgentPorts.ts";
import { EndedSockets } from "./EndedSockets.ts";
import { eraseAgent } from "./eraseAgent.ts";
import type { HostServices } from "./HostServices.ts";
import type { MakeRoom } from "./makeRoom.ts";
import { hibernateAgent, type LeavingAgent } from "./hibernateAgent.ts";
import { UnknownAgentClass } from "./slotErrors.ts";
import { SnapshotPolicy } from "./SnapshotPolicy.ts";
import { SparseMap } from "../../core/collections/sparse.ts";

/** Wait before a failed activation is tried again for inputs that wait, at first and at most. */
const REACTIVATE_MS_MIN = 200;
const REACTIVATE_MS_MAX = 30_000;

/** Inputs kept with their bytes while an agent starts; the rest are read again. */
const EARLY_MAX = 16;
/** How often a leaving agent is looked at. */
const IDLE_POLL_MS = 5;
/** An agent busier than this on new code's arrival keeps the old until it rests. */
const RECYCLE_WAIT_MS = 5_000;
const { hibernateAfterSeconds: HIBERNATE_S } = AGENT_STATIC_OPTIONS_DEFAULT;

export interface SlotOwner extends Ownership {
  readonly services: HostServices;
  /** Of others, before an agent wakes. */
  readonly makeRoom?: MakeRoom | undefined;
}

type Live = LeavingAgent & { readonly mailbox: Mailbox };

export class AgentSlot implements AgentKeeper {
  readonly id: AgentId;
  private readonly owner: SlotOwner;
  private live: Live | undefined;
  private activating: Promise<Live> | undefined;
  private readonly outstanding = new SparseMap<number, InputHandle>();
  /** Bytes of the first inputs that came before the agent had started, by sequence. */
  private readonly early = new SparseMap<number, Uint8Array>();
  /** Sockets of the agent while it is not in memory, by `socketKey`. */
  readonly sockets = new SparseMap<string, SocketInfo>();
  private readonly ended = new EndedSockets((key) => {
    this.sockets.delete(key);
    this.live?.agent.sockets.delete(key);
  });
  private quarantined: string | undefined;
  /** Nothing starts meanwhile: it would come to life on what is about to go. */
  private erasing = false;
  private failures = 0;
  /** The last agent was thrown out of memory: one of its inputs may be why, and would be again. */
  private suspicious = false;
  private cancelRetry: (() => void) | undefined;

  constructor(id: AgentId, owner: SlotOwner) {
    this.id = id;
    this.owner = owner;
  }

  /** In memory, or undefined. */
  get agent(): ActiveAgent | undefined {
    return this.live?.agent;
  }

  /** Nothing is here: the shard may forget the slot. */
  get empty(): boolean {
    return (
      this.live === undefined &&
      this.activating === undefined &&
      this.outstanding.size === 0 &&
      this.sockets.size === 0 &&
      this.ended.empty &&
      this.quarantined === undefined &&
      !this.erasing
    );
  }

  deliver(delivery: Delivery): void {
    const handle: InputHandle = {
      id: delivery.id,
      seq: delivery.seq,
      deliveries: delivery.deliveries,
      ack: () => {
        this.outstanding.delete(delivery.seq);
        delivery.ack();
      },
      nak: (delayMs) => {
        this.outstanding.delete(delivery.seq);
        delivery.nak(delayMs);
      },
    };
    if (this.outstanding.has(delivery.seq)) {
      // Delivered again while we hold it (a broker restart): the handle is renewed, it runs once.
      this.outstanding.set(delivery.seq, handle);
      return;
    }
    this.outstanding.set(delivery.seq, handle);
    if (this.live !== undefined) this.live.mailbox.deliver(handle, delivery.data);
    else {
      // Kept for the start, so that what wakes an agent is not read twice.
      if (this.early.size < EARLY_MAX) this.early.set(delivery.seq, delivery.data);
      this.wake();
    }
  }

  /** Answers a call. Rejects with what makes it impossible here and now. Not `async`: each is one call more to wait for. */
  call(call: Call, body: Uint8Array): Promise<CallAnswer> {
    if (call.kind === "erase") return this.erase();
    if (call.kind === "abort") return Promise.resolve(abortFamily(this.agent, call.reason));
    if (call.kind === "input") return this.give(call.head, body);
    if (call.kind === "resume") this.ended.resumed(call.socket);
    if (call.kind !== "message" && call.kind !== "close") return this.answer(call, body);
    const { time } = this.owner.services;
    return this.ended.ask(call, time.monotonicMs(), () => this.answer(call, body));
  }

  private async answer(call: AgentCall, body: Uint8Array): Promise<CallAnswer> {
    const live = this.live ?? (await this.activate("props" in call ? call.props : undefined, true));
    return handleCall(live.agent, call, body);
  }

  private give(head: InboxHead, body: Uint8Array): Promise<DirectEnd> {
    // Stored ones wait for it to start.
    if (this.cancelRetry !== undefined) return Promise.resolve({ reply: { kind: "notHere" } });
    const input = new DirectInput(this.id, { head, body });
    if (this.live !== undefined) return this.live.mailbox.give(input);
    return this.activate(undefined, false).then(({ mailbox }) => mailbox.give(input));
  }

  /** Of `agents erase`: the sequence that `endLife` gives. Who calls meanwhile is asked to try again. */
  private async erase(): Promise<CallAnswer> {
    const { services, epoch, signal } = this.owner;
    this.erasing = true;
    try {
      await this.activating?.catch(() => undefined);
      for (const handle of this.outstanding.values()) handle.ack();
      this.early.clear();
      if (this.live !== undefined) this.dropped(this.live.agent);
      else services.databases.discard(this.id);
      const sockets = [...this.sockets.values()];
      this.sockets.clear();
      const seq = await eraseAgent(services, this.id, { epoch, signal, sockets });
      this.quarantined = undefined;
      this.suspicious = false;
      return { reply: { kind: "result", value: seq } };
    } finally {
      this.erasing = false;
      if (this.outstanding.size > 0 && !signal.aborted) this.wake();
    }
  }

  /** Sockets that a census found; the agent in memory learns of them too. */
  addSocket(info: SocketInfo): void {
    this.ended.resumed(info);
    const { live } = this;
    // What its agent left here is newer than what its gateway knows.
    if (live === undefined && this.sockets.has(socketKey(info))) return;
    if (live === undefined) this.sockets.set(socketKey(info), info);
    else live.agent.sockets.meet(info);
  }

  /** Every socket of a gateway that is gone. */
  socketsOf(gateway: string): ReadonlyArray<SocketInfo> {
    const all = this.live?.agent.sockets.infos() ?? [...this.sockets.values()];
    return all.filter((info) => info.gateway === gateway);
  }

  /** Leaves memory if it is idle, as long as its class says or `idleLimitMs`. True: left. */
  hibernate(nowMs: number, idleLimitMs = Infinity): boolean {
    this.ended.forget(nowMs);
    const { live } = this;
    if (!live?.agent.idle || !live.mailbox.idle || live.agent.kept.size > 0) return false;
    const { hibernate = true, hibernateAfterSeconds: afterS = HIBERNATE_S } = live.agent.options;
    const afterMs = Math.min(afterS * 1000, idleLimitMs);
    if (!hibernate || nowMs - live.agent.lastActiveMs < afterMs) return false;
    this.leave(live);
    return true;
  }

  /** Takes what has not begun back, waits for what has, and then for `mayLeave`. */
  async drain(mayLeave: () => Promise<void>): Promise<void> {
    this.cancelRetry?.();
    this.live?.mailbox.stop();
    this.live?.agent.rest();
    const { time } = this.owner.services;
    for (;;) {
      while (this.live !== undefined && !(this.live.agent.idle && this.live.mailbox.idle))
        await new Promise<void>((resolve) => time.after(IDLE_POLL_MS, resolve));
      if (this.live === undefined) return;
      await mayLeave();
      if (this.live?.agent.idle && this.live.mailbox.idle) return this.leave(this.live);
    }
  }

  /** Leaves memory as soon as it is idle, and comes back on the module's new code when something waits. */
  async recycle(): Promise<void> {
    const { time } = this.owner.services;
    const endMs = time.monotonicMs() + RECYCLE_WAIT_MS;
    const { live } = this;
    while (live !== undefined && this.live === live && time.monotonicMs() < endMs) {
      if (live.agent.idle && live.mailbox.idle) {
        this.leave(live);
        if (this.outstanding.size > 0) this.wake();
        return;
      }
      await new Promise<void>((resolve) => time.after(IDLE_POLL_MS, resolve));
    }
  }

  /** The shard is lost: nothing leaves any more. */
  discard(): void {
    this.cancelRetry?.();
    this.live?.agent.discard();
    this.live = undefined;
    this.outstanding.clear();
    this.early.clear();
  }

  private leave(live: Live): void {
    const { agent } = live;
    for (const [key, info] of agent.sockets.records({ inOrder: true })) this.sockets.set(key, info);
    this.suspicious = false;
    hibernateAgent(this.owner.services, live);
    this.live = undefined;
    this.owner.services.metrics.hibernations();
  }

  /** Activates for the inputs that wait; failures are retried with backoff, for as long as they wait. */
  private wake(): void {
    if (this.live !== undefined || this.activating !== undefined || this.cancelRetry !== undefined)
      return;
    // `activate` sees to its failure.
    this.activate(undefined, false).catch(() => undefined);
  }

  private wakeFailed(error: unknown): void {
    const { services, signal } = this.owner;
    if (signal.aborted || this.quarantined !== undefined || this.outstanding.size === 0) return;
    if (this.cancelRetry !== undefined) return;
    const delayMs = Math.min(REACTIVATE_MS_MIN * 2 ** this.failures++, REACTIVATE_MS_MAX);
    services.log.warn("an agent could not be started; its inputs wait", {
      ...this.id,
      retryInMs: delayMs,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    this.cancelRetry = services.time.after(delayMs, () => {
      this.cancelRetry = undefined;
      this.wake();
    });
  }

  private activate(props: unknown, urgent: boolean): Promise<Live> {
    if (this.erasing) return Promise.reject(new AgentDiscarded());
    if (this.quarantined !== undefined)
      return Promise.reject(new CorruptFrame({ message: this.quarantined }));
    return (this.activating ??= this.start(props, urgent).then(
      (live) => {
        this.activating = undefined;
        // Thrown out by its first input already.
        if (this.live === undefined && !this.owner.signal.aborted && this.outstanding.size > 0)
          this.wake();
        return live;
      },
      (error: unknown) => {
        this.activating = undefined;
        // Inputs may have come while a call was what started it.
        this.wakeFailed(error);
        throw error;
      },
    ));
  }

  private async start(props: unknown, urgent: boolean): Promise<Live> {
    const { services, signal } = this.owner;
    const agentClass = services.module().agents.get(this.id.class);
    if (agentClass === undefined) throw new UnknownAgentClass(this.id.class);
    try {
      const { agent, seat, replayed, cameBack } = await activate(services, this.id, {
        owner: this.owner,
        home: this,
        makeRoom: this.owner.makeRoom,
        agentClass,
        props,
        urgent,
      });
      if (signal.aborted) {
        agent.discard();
        throw new AgentDiscarded();
      }
      this.sockets.clear();
      services.metrics.activations(replayed.events);
      this.failures = 0;
      const live: Live = {
        agent,
        mailbox: new Mailbox(agent, seat, { suspicious: this.suspicious }),
        snapshots: new SnapshotPolicy(agent, services),
        cameBack,
      };
      this.live = live;
      for (const handle of this.outstanding.values())
        live.mailbox.deliver(handle, this.early.get(handle.seq));
      this.early.clear();
      agent.lanes.start();
      return live;
    } catch (error) {
      if (error instanceof CorruptFrame || error instanceof UnknownVersion) this.quarantine(error);
      throw error;
    }
  }

  // AgentKeeper

  prepare(agent: ActiveAgent): void {
    for (const info of this.sockets.values()) agent.sockets.resume(info);
  }

  onCommitted(agent: ActiveAgent, bytes: number): void {
    this.owner.services.metrics.commits(bytes);
    if (this.live?.agent === agent) this.live.snapshots.committed(bytes);
  }

  onFailed(agent: ActiveAgent, outcome: AppendResult["_tag"] | "Defect", error: unknown): void {
    this.owner.services.log.warn("an append was not stored; the agent is thrown away", {
      ...this.id,
      outcome,
      error: error instanceof Error ? error.stack : error,
    });
    // A defect of ours is met again by whoever runs the same again: no call is.
    if (outcome === "Defect") agent.abort("its commit failed");
    else this.dropped(agent);
  }

  onAbort(reason: string): void {
    this.owner.services.log.warn("an agent was aborted", { ...this.id, reason });
    if (this.live !== undefined) this.dropped(this.live.agent);
  }

  onDestroyed(agent: ActiveAgent, turn: Turn): void {
    // The input that did it is done, and is answered by the agent that it destroyed; a copy of one that was not stored at
    // first has a handle of its own.
    if (turn.cause.seq !== undefined && !turn.direct) this.outstanding.delete(turn.cause.seq);
    this.dropped(agent);
    this.suspicious = false;
  }

  /** The agent in memory is gone, the shard may still be ours: rule 2. */
  private dropped(agent: ActiveAgent): void {
    const { live } = this;
    agent.discard();
    this.owner.services.databases.discard(this.id);
    if (live?.agent !== agent) return;
    // What destroyed the agent still answers.
    if (agent.destroyed) live.mailbox.stop();
    else live.mailbox.abandon();
    for (const [key, info] of agent.sockets.records({ inOrder: false }))
      this.sockets.set(key, info);
    this.live = undefined;
    this.suspicious = true;
    if (!this.owner.signal.aborted && this.outstanding.size > 0) this.wake();
  }

  private quarantine(error: CorruptFrame | UnknownVersion): void {
    this.quarantined = error.message;
    this.owner.services.metrics.quarantines();
    this.owner.services.log.error(
      "an agent's journal can't be read; the agent is quarantined, its inputs stay stored",
      { ...this.id, error: error.message },
    );
  }
}
