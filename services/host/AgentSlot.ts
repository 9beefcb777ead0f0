/**
 * One agent's slot on the host that owns its shard, for as long as anything of the agent is here:
 * activates the agent when something arrives for it, feeds it, snapshots it and hibernates it.
 *
 * 1. At most one activation and one `ActiveAgent` exist at a time.
 * 2. An input that was delivered and not acked is never forgotten. When the agent is discarded
 *    while the shard is still owned, its inputs begin again on a fresh agent, in stored order.
 * 3. A damaged journal quarantines the agent (`Quarantine`). Its inputs stay stored, and other
 *    agents are not affected (I12).
 *
 * Owned by `Shard`.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { AgentCall, SlotCall } from "../../schemas/bus/Call.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { isUnreadable } from "../../schemas/Frame.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { AGENT_STATIC_OPTIONS_DEFAULT } from "../../core/agent/AgentStaticOptions.ts";
import type { AbortSource } from "../../core/lazyFetch/AbortSource.ts";
import type { AppendResult } from "../../core/journal/Journal.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { continueTrace } from "./continueTrace.ts";
import { DirectInput, type DirectEnd } from "../../core/input/DirectInput.ts";
import { cancelCall, runCancellable } from "../../core/call/cancellableCalls.ts";
import { handleCall } from "../../core/runtime/handleCall.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { Mailbox } from "../../core/input/Mailbox.ts";
import { abortFamily } from "../../core/runtime/subAgentCalls.ts";
import type { TimeSlices } from "../../core/time/TimeSlices.ts";
import { sleep } from "../../core/time/sleep.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { activate } from "./activate.ts";
import { agentOutlet } from "./agentOutlet.ts";
import type { AgentSupervisor, Ownership } from "./AgentPorts.ts";
import { EndedSockets } from "./slot/EndedSockets.ts";
import type { HostServices } from "./HostServices.ts";
import type { MakeRoom } from "./makeRoom.ts";
import { hibernateAgent, isIdle, type Live } from "./hibernateAgent.ts";
import { Maintenance, type MaintainedSlot } from "./Maintenance.ts";
import { OutstandingInputs, type Delivered } from "./slot/OutstandingInputs.ts";
import { endSockets } from "./slot/objectSockets.ts";
import { SlotSockets } from "./slot/SlotSockets.ts";
import type { QuarantineReason } from "./Quarantine.ts";
import type { LeftBehind } from "./QuarantinedSlot.ts";
import { reasonOf, UnknownAgentClass } from "./slotErrors.ts";
import { SlotStart, type StartingSlot } from "./SlotStart.ts";
import { SnapshotPolicy } from "./SnapshotPolicy.ts";

/** How often an agent that is to leave memory is checked for being idle. */
const IDLE_POLL_MS = 5;
/** An agent that is busy for longer after new code arrives keeps the old code until it is idle. */
const RECYCLE_WAIT_MS = 5_000;
/**
 * Running turns have this long to end before their agent is put back. After that they are
 * interrupted as if their host had ended, so that an operator's command does not wait for a stalled
 * turn.
 */
const SETTLE_MS = 10_000;
const { hibernateAfterSeconds: HIBERNATE_S } = AGENT_STATIC_OPTIONS_DEFAULT;

/** What all slots of a shard share. */
export interface SlotContext extends Ownership {
  readonly services: HostServices;
  /** Called before an agent wakes. Default: memory is not checked. */
  readonly makeRoom?: MakeRoom | undefined;
  /** An input of the agent has ended its process. Default false. */
  readonly suspicious?: boolean;
  /** Puts a quarantined agent's slot in the place of this one. */
  readonly quarantine: (id: AgentId, why: QuarantineReason) => void;
  /** Adds the agent's open sockets to its slot again. Default: nothing is known of them. */
  readonly takeCensus?: (id: AgentId) => Promise<void>;
}

export class AgentSlot implements AgentSupervisor, MaintainedSlot, StartingSlot<Live> {
  readonly id: AgentId;
  private live: Live | undefined;
  readonly starts: SlotStart<Live>;
  /** Stored inputs that were delivered and are not done. */
  readonly outstanding = new OutstandingInputs();
  readonly sockets = new SlotSockets(this);
  private readonly ended = new EndedSockets(this.sockets);
  /** Calls that run, as `runCancellable` has them. */
  cancellable: Map<string, AbortSource> | undefined;
  readonly maintenance: Maintenance;
  /** The last agent was evicted. One of its inputs may be the cause, and would cause it again. */
  private suspicious: boolean;

  constructor(
    id: AgentId,
    private readonly context: SlotContext,
  ) {
    this.id = id;
    this.suspicious = context.suspicious ?? false;
    this.starts = new SlotStart(this, context.services);
    this.maintenance = new Maintenance(this, context);
  }

  /** The agent while it is in memory; otherwise undefined. */
  get agent(): ActiveAgent | undefined {
    return this.live?.agent;
  }

  /** True when the slot holds nothing: the shard may remove it. */
  get empty(): boolean {
    return (
      this.live === undefined &&
      this.starts.pending === undefined &&
      !this.starts.waits &&
      this.outstanding.size === 0 &&
      this.sockets.size === 0 &&
      this.ended.empty &&
      !this.maintenance.isUnderWay
    );
  }

  deliver(delivery: Delivered): void {
    const handle = this.outstanding.add(delivery);
    if (handle === undefined) return;
    if (this.live !== undefined && !this.maintenance.isUnderWay)
      return this.live.mailbox.deliver(handle, delivery.data);
    this.outstanding.keepBytes(delivery);
    this.starts.wake();
  }

  /**
   * Answers a call. Rejects with `AgentDiscarded`, `BrokerUnavailable`, `CorruptFrame`,
   * `UnknownAgentClass`, or what the user's code throws. Not `async`, to save a promise per call.
   */
  call(call: SlotCall, body: Uint8Array): Promise<CallAnswer> {
    if (call.kind === "erase") return this.maintenance.erase();
    if (call.kind === "restore") return this.maintenance.restore(call, body);
    if (call.kind === "abort") return Promise.resolve(abortFamily(this.agent, call.reason));
    if (call.kind === "cancel") return cancelCall(this, call.call);
    if (call.kind === "input") return this.runDirect(call.head, body);
    if (call.kind === "resume") this.ended.resumed(call.socket);
    if (call.kind !== "message" && call.kind !== "close") return this.answer(call, body);
    const { time } = this.context.services;
    return this.ended.ask(call, time.monotonicMs(), () => this.answer(call, body));
  }

  private answer(call: AgentCall, body: Uint8Array): Promise<CallAnswer> {
    if (this.maintenance.refuses(call)) return Promise.reject(new AgentDiscarded());
    return runCancellable(this, call, async (abort) => {
      const props = "props" in call ? call.props : undefined;
      const { agent } = this.live ?? (await this.starts.activate(props, true));
      const run = () => handleCall(agent, call, body, abort);
      return continueTrace(this.context.services.ambient, call, run);
    });
  }

  private runDirect(head: InboxHead, body: Uint8Array): Promise<DirectEnd> {
    // Stored inputs wait for the agent to start, and run before this one.
    if (this.starts.waits || this.maintenance.isUnderWay)
      return Promise.resolve({ reply: { kind: "notHere" } });
    const input = new DirectInput(this.id, { head, body });
    if (this.live !== undefined) return this.live.mailbox.give(input);
    return this.starts.activate(undefined, false).then(({ mailbox }) => mailbox.give(input));
  }

  /** Adds a socket that a census found, also to the agent in memory. */
  addSocket(info: SocketInfo): void {
    this.ended.resumed(info);
    this.sockets.add(info);
  }

  /** The agent's sockets at one gateway. */
  socketsOf(gateway: string): ReadonlyArray<SocketInfo> {
    return this.sockets.at(gateway);
  }

  /**
   * Hibernates the agent if it has been idle for as long as its class says, or for `idleLimitMs` if
   * that is shorter. Returns whether the agent left memory. An agent that holds an input is not
   * idle: on a busy host an alarm may wait for its slice for longer than that.
   */
  hibernate(nowMs: number, idleLimitMs = Infinity): boolean {
    this.ended.forget(nowMs);
    const { live } = this;
    if (!isIdle(live) || live.agent.kept !== undefined || this.outstanding.size > 0) return false;
    const { hibernate = true, hibernateAfterSeconds: afterS = HIBERNATE_S } = live.agent.options;
    const afterMs = Math.min(afterS * 1000, idleLimitMs);
    if (!hibernate || nowMs - live.agent.lastActiveMs < afterMs) return false;
    this.hibernateNow(live);
    return true;
  }

  /** Stops inputs that have not begun, waits for those that have, and then hibernates the agent. */
  async drain(slices: Pick<TimeSlices, "yield">): Promise<void> {
    this.starts.cancel();
    this.quiesce();
    for (;;) {
      if ((await this.idle(Infinity)) === undefined) return;
      await slices.yield();
      if (isIdle(this.live)) return this.hibernateNow(this.live);
    }
  }

  /** Hibernates the agent once it is idle, and wakes it on the new code if inputs wait. */
  async recycle(): Promise<void> {
    const { live } = this;
    if (live === undefined || (await this.idle(RECYCLE_WAIT_MS)) !== live) return;
    // Something has begun since.
    if (!isIdle(live)) return this.recycle();
    this.hibernateNow(live);
    this.starts.wake();
  }

  /**
   * The agent once it is idle. Undefined: it is out of memory, or busy for longer than `ms`. The
   * caller asks `isIdle` again, because work may begin before it continues.
   */
  async idle(ms: number): Promise<Live | undefined> {
    const { time } = this.context.services;
    const endMs = time.monotonicMs() + ms;
    while (this.live !== undefined && !isIdle(this.live)) {
      if (time.monotonicMs() >= endMs) return undefined;
      await sleep(time, IDLE_POLL_MS);
    }
    return this.live;
  }

  /** Another slot takes the place of this one, which has no agent in memory. */
  leave(): LeftBehind {
    const left = { inputs: [...this.outstanding.values()], sockets: [...this.sockets.values()] };
    this.discard();
    return left;
  }

  /** The shard is lost: nothing is sent or acked any more. */
  discard(): void {
    this.starts.cancel();
    this.live?.agent.discard();
    this.live = undefined;
    this.outstanding.clear();
  }

  /** Begins no more inputs and jobs. */
  private quiesce(): void {
    this.live?.mailbox.stop();
    this.live?.agent.rest();
  }

  private hibernateNow(live: Live): void {
    this.sockets.hibernate(live.agent, { inOrder: true });
    this.suspicious = false;
    hibernateAgent(this.context.services, live);
    this.live = undefined;
    this.context.services.metrics.ofClass(this.id.class).hibernation();
  }

  // MaintainedSlot

  async settle(): Promise<void> {
    this.quiesce();
    const live = await this.idle(SETTLE_MS);
    if (live !== undefined && isIdle(live)) this.hibernateNow(live);
    else if (this.live !== undefined) this.evict(this.live.agent);
    this.suspicious = false;
  }

  purge(): ReadonlyArray<SocketInfo> {
    this.outstanding.ackAll();
    this.starts.cancel();
    if (this.live !== undefined) this.evict(this.live.agent);
    else this.context.services.databases.discard(this.id);
    const sockets = [...this.sockets.values()];
    this.sockets.clear();
    // The inputs that may have been the cause are gone.
    this.suspicious = false;
    return sockets;
  }

  // StartingSlot

  get isLive(): boolean {
    return this.live !== undefined;
  }

  get hasInputs(): boolean {
    return this.outstanding.size > 0 && !this.context.signal.aborted;
  }

  get refusal(): Error | undefined {
    return this.maintenance.isUnderWay ? new AgentDiscarded() : undefined;
  }

  async start(props: unknown, urgent: boolean): Promise<Live> {
    const { services, signal } = this.context;
    const { agents } = services.module();
    const agentClass = agents.get(this.id.class);
    if (agentClass === undefined) throw new UnknownAgentClass(this.id.class, agents.keys());
    try {
      const { agent, ports, replayed, cameBack } = await activate(services, this.id, {
        ownership: this.context,
        supervisor: this,
        makeRoom: this.context.makeRoom,
        agentClass,
        props,
        urgent,
      });
      if (signal.aborted) {
        agent.discard();
        throw new AgentDiscarded();
      }
      this.sockets.started(agent);
      services.metrics.ofClass(this.id.class).activation(replayed.events);
      const endedHost = services.isolation?.endedHost;
      const isExplained = endedHost !== undefined && replayed.host === endedHost;
      const explained = isExplained && agent.suspects.forgive();
      const live: Live = {
        agent,
        mailbox: new Mailbox(agent, ports, { suspicious: this.suspicious, explained }),
        snapshots: new SnapshotPolicy(agent, services),
        cameBack,
      };
      this.live = live;
      this.outstanding.deliverTo(live.mailbox);
      agent.lanes.start();
      return live;
    } catch (error) {
      if (isUnreadable(error))
        this.context.quarantine(this.id, { kind: "journal", reason: error.message });
      throw error;
    }
  }

  // AgentSupervisor

  restoreSockets(agent: ActiveAgent): void {
    this.sockets.resumeOn(agent);
  }

  onCommitted(agent: ActiveAgent, bytes: number): void {
    this.starts.stored();
    if (this.live?.agent === agent) this.live.snapshots.committed(bytes);
  }

  onFailed(agent: ActiveAgent, outcome: AppendResult["_tag"] | "Defect", error: unknown): void {
    this.context.services.log.warn("an append was not stored; the agent leaves memory", {
      ...this.id,
      outcome,
      error: reasonOf(error),
    });
    // After a conflict the agent continues from what another owner has stored.
    if (outcome !== "Conflict" && this.live?.agent === agent) this.starts.gaveUp(error);
    // A defect of the runtime would recur on a retry, so calls are not retried.
    if (outcome === "Defect") agent.abort("its commit failed");
    else this.evict(agent);
  }

  onAbort(reason: string): void {
    this.context.services.log.warn("an agent was aborted", { ...this.id, reason });
    if (this.live === undefined) return;
    this.starts.gaveUp(reason);
    this.evict(this.live.agent);
  }

  onDestroyed(agent: ActiveAgent, turn: Turn): void {
    // The destroyed agent answers the input. A stored copy of a direct input has its own handle.
    if (turn.cause.seq !== undefined && !turn.direct) this.outstanding.delete(turn.cause.seq);
    this.evict(agent);
    this.suspicious = false;
  }

  /** Removes the agent from memory without a snapshot. The shard may still be owned: rule 2. */
  private evict(agent: ActiveAgent): void {
    const { live } = this;
    agent.discard();
    this.context.services.databases.discard(this.id);
    if (live?.agent !== agent) return;
    // A destroyed agent's mailbox still answers the input that destroyed it.
    if (agent.destroyed) live.mailbox.stop();
    else live.mailbox.abandon();
    if (!endSockets(agent, agentOutlet(this.context.services)))
      this.sockets.hibernate(agent, { inOrder: false });
    this.live = undefined;
    this.suspicious = true;
    this.starts.wake();
  }
}
