/**
 * The slots of one shard's agents: which kind of slot each agent has, and what replaces it when
 * that changes. Owned by `Shard`.
 *
 * 1. A quarantined agent has a `QuarantinedSlot`, an isolated one an `IsolatedSlot`, any other an
 *    `AgentSlot`.
 * 2. A slot that is replaced leaves its inputs and sockets to the next one: no input that was
 *    delivered is forgotten, and their order stays.
 */
import { addressKey, type AgentId, type ShardId } from "../../schemas/Address.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { socketKey, type SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import type { ConnectionsReply } from "../../schemas/bus/SocketLists.ts";
import { listConnections } from "../../core/connection/listConnections.ts";
import { settlesWithin } from "../../core/time/settlesWithin.ts";
import type { TimeSlices } from "../../core/time/TimeSlices.ts";
import { agentOutlet } from "./agentOutlet.ts";
import type { Ownership } from "./AgentPorts.ts";
import { AgentSlot, type SlotContext } from "./AgentSlot.ts";
import type { HostServices } from "./HostServices.ts";
import { isolatedSlot, IsolatedSlot, returnIsolated, type Slot } from "./IsolatedSlot.ts";
import { roomMaker } from "./makeRoom.ts";
import { Quarantine, type QuarantineReason } from "./Quarantine.ts";
import { QuarantinedSlot } from "./QuarantinedSlot.ts";
import { refuseLost } from "../../core/runtime/lostCalls.ts";
import { endLost } from "./slot/objectSockets.ts";

/** A turn that takes longer counts as long. */
const BRIEF_MS = 250;

interface SlotsOptions extends Ownership {
  readonly shard: ShardId;
  /** Whether the lease is certainly held. */
  readonly isHeld: () => boolean;
}

export class Slots {
  readonly quarantine: Quarantine;
  /** Asks gateways for the agent's sockets again, and adds them to its slot. Set by `Shard`. */
  takeCensus: (id: AgentId) => Promise<void> = () => Promise.resolve();
  private readonly all = new Map<string, Slot>();
  private readonly context: SlotContext;

  constructor(
    private readonly services: HostServices,
    { shard, isHeld, ...ownership }: SlotsOptions,
  ) {
    this.quarantine = new Quarantine(services, shard);
    this.context = {
      services,
      ...ownership,
      makeRoom: roomMaker(services, this.all, isHeld),
      quarantine: (id, why) => this.quarantineAgent(id, why),
      takeCensus: (id) => this.takeCensus(id),
    };
  }

  values(): Iterable<Slot> {
    return this.all.values();
  }

  of(id: AgentId): Slot {
    const key = addressKey(id);
    let slot = this.all.get(key);
    if (slot === undefined) this.all.set(key, (slot = this.newSlot(id)));
    return slot;
  }

  /**
   * A socket that the shard's first census found. One that this owner has already is not lost with
   * the one before.
   */
  meet(id: AgentId, socket: SocketInfo, isWorking: boolean): void {
    const isKnown = this.find(id)?.sockets.has(socketKey(socket)) === true;
    const agentClass = this.services.module().agents.get(id.class);
    const outlet = agentOutlet(this.services);
    if (isWorking && !isKnown && endLost(agentClass, socket, outlet)) return;
    this.of(id).addSocket(isKnown ? socket : refuseLost(socket, outlet));
  }

  find(id: AgentId): Slot | undefined {
    return this.all.get(addressKey(id));
  }

  /**
   * Drains the agents that stay busy, for at most `msMax`. The others continue, and so does one
   * that is drained when something arrives for it.
   */
  async drainLong(slices: Pick<TimeSlices, "yield">, msMax: number): Promise<void> {
    const drained = [...this.all.values()].map(async (slot) => {
      if (!(slot instanceof AgentSlot) || (await slot.idle(BRIEF_MS)) !== undefined) return;
      // It may have left memory by itself.
      if (slot.agent !== undefined) await slot.drain(slices);
    });
    await settlesWithin(this.services.time, msMax, Promise.all(drained));
  }

  removeEmpty(slot: Slot): void {
    const key = addressKey(slot.id);
    if (slot.empty && this.all.get(key) === slot) this.all.delete(key);
  }

  /** The shard is lost: nothing is sent or acked any more. */
  discard(): void {
    for (const slot of this.all.values()) slot.discard();
    this.all.clear();
    this.quarantine.clear();
  }

  /** The agent is isolated: it leaves when no turn of it runs. */
  isolated(id: AgentId): void {
    const slot = this.find(id);
    if (!(slot instanceof AgentSlot)) return;
    void slot.maintenance.replace(() => {
      if (this.find(id) === slot) this.replace(id);
    });
  }

  /** An isolated agent may run here again. */
  returned(id: AgentId): void {
    returnIsolated(this.all, id, this.context);
  }

  /** For `agents connections`. Without a slot there are none, and its next input would run here. */
  connections(id: AgentId, page: Parameters<typeof listConnections>[1]): ConnectionsReply {
    const slot = this.find(id) ?? this.newSlot(id);
    const sockets = slot.agent?.sockets.open() ?? slot.sockets.values();
    return { agent: placeOf(slot), ...listConnections(sockets, page) };
  }

  /** For `agents release`. The value is the mark that the agent had, or null. */
  release(id: AgentId): CallAnswer {
    const mark = this.quarantine.release(id, "an operator");
    if (mark !== undefined) this.endQuarantine(id);
    return { reply: { kind: "result", value: mark ?? null } };
  }

  /** Agents whose quarantine is over run again. */
  lookAtQuarantine(): void {
    for (const id of this.quarantine.look()) this.endQuarantine(id);
  }

  /** A quarantined agent is erased like any other: its inputs are acked first. */
  beforeErasure(id: AgentId): void {
    this.quarantine.forget(id);
    const slot = this.find(id);
    if (!(slot instanceof QuarantinedSlot)) return;
    for (const input of slot.outstanding.values()) input.ack();
    slot.outstanding.clear();
    this.replace(id);
  }

  /** An agent that something has arrived for since its time was over runs already. */
  private endQuarantine(id: AgentId): void {
    if (this.find(id) instanceof QuarantinedSlot) this.replace(id);
  }

  private quarantineAgent(id: AgentId, why: QuarantineReason): void {
    if (this.context.signal.aborted || this.quarantine.of(id) !== undefined) return;
    this.quarantine.add(id, why);
    this.replace(id);
  }

  /** Rule 1. */
  private newSlot(id: AgentId): Slot {
    const mark = this.quarantine.of(id);
    if (mark !== undefined)
      return new QuarantinedSlot(id, { mark, nowMs: this.services.time.nowMs });
    return isolatedSlot(id, this.context) ?? new AgentSlot(id, this.context);
  }

  /** Rule 2. The slot has no agent in memory. */
  private replace(id: AgentId): void {
    const key = addressKey(id);
    const before = this.all.get(key);
    if (before === undefined) return;
    const { inputs, sockets } = before.leave();
    const next = this.newSlot(id);
    this.all.set(key, next);
    for (const info of sockets) next.addSocket(info);
    for (const input of inputs) next.deliver(input);
  }
}

function placeOf(slot: Slot): ConnectionsReply["agent"] {
  if (slot instanceof QuarantinedSlot) return "quarantined";
  if (slot instanceof IsolatedSlot) return "isolated";
  return slot.agent === undefined ? "hibernated" : "inMemory";
}
