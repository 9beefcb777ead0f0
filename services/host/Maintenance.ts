/**
 * Maintenance of one agent on the host that owns it: `agents erase`, `agents restore`, and the
 * change to another kind of slot.
 *
 * 1. Nothing of the agent begins meanwhile: an activation would read what is about to be replaced.
 *    Callers are asked to retry, and inputs wait.
 * 2. One maintenance runs at a time; the caller of a second one is asked to retry.
 *
 * Owned by `AgentSlot`, which takes the agent out of memory.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { AgentCall, SlotCall } from "../../schemas/bus/Call.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { decodeSnapshot } from "../../schemas/Snapshot.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { endLife } from "../../core/journal/endLife.ts";
import { closeAll } from "../../core/runtime/AgentSockets.ts";
import { agentOutlet } from "./agentOutlet.ts";
import type { Ownership } from "./AgentPorts.ts";
import type { Live } from "./hibernateAgent.ts";
import type { HostServices } from "./HostServices.ts";
import { restoreAgent } from "./restoreAgent.ts";
import type { SlotStart } from "./SlotStart.ts";

/** The slot of the agent that is maintained. */
export interface MaintainedSlot {
  readonly id: AgentId;
  readonly starts: Pick<SlotStart<Live>, "activate" | "pending" | "wake">;
  /** Hibernates the agent. Turns that do not end are interrupted as if their host had ended. */
  settle(): Promise<void>;
  /** Acks the inputs, and removes the agent from memory and disk. Returns its open sockets. */
  purge(): Iterable<SocketInfo>;
}

export class Maintenance {
  private underWay = false;

  constructor(
    private readonly slot: MaintainedSlot,
    private readonly context: Ownership & { readonly services: HostServices },
  ) {}

  get isUnderWay(): boolean {
    return this.underWay;
  }

  /** Rule 1. A call about something that runs already is answered during a maintenance. */
  refuses({ kind }: AgentCall): boolean {
    const isOfRunning =
      kind === "pull" || kind === "drop" || kind === "close" || kind === "end" || kind === "child";
    return this.underWay && !isOfRunning;
  }

  /**
   * Ends the agent's life. After this, the caller removes what is stored of the agent. Answers with
   * the sequence of its last event. Rejects as `endLife` does.
   */
  erase(): Promise<CallAnswer> {
    return this.exclusively(async () => {
      const { services, epoch, signal } = this.context;
      const { journal, time, config, storing } = services;
      const { id } = this.slot;
      const outlet = agentOutlet(services);
      closeAll(this.slot.purge(), outlet);
      const seq = await endLife(id, { journal, time, epoch, signal, host: config.hostId });
      // A snapshot that is being stored would arrive after the stored ones were removed.
      await Promise.all(storing);
      outlet.publishState(id, seq, time.nowMs(), undefined);
      return seq;
    });
  }

  /** Answers with the event's sequence; the agent wakes restored. Rejects as `restoreAgent`. */
  async restore(
    { key, life }: SlotCall & { readonly kind: "restore" },
    body: Uint8Array,
  ): Promise<CallAnswer> {
    const { id, starts } = this.slot;
    const answer = await this.exclusively(async () => {
      const to = decodeSnapshot(body);
      await this.slot.settle();
      return restoreAgent(this.context, id, { key, life, to });
    });
    // Schedules that are due by the restored rows run now, and sockets receive the state.
    void starts.activate(undefined, true).then(
      ({ agent }) => agent.keeping.tellAgain(),
      () => undefined, // it handles its failure
    );
    return answer;
  }

  /** Calls `f`, which puts another slot in the place of this one, when no turn runs. */
  async replace(f: () => void): Promise<void> {
    // An agent that is being erased or put back is left where it is.
    if (this.underWay) return;
    await this.exclusively(async () => {
      await this.slot.settle();
      f();
    });
  }

  /** Rules 1 and 2. Answers with what `f` resolves to. */
  private async exclusively(f: () => Promise<number | void>): Promise<CallAnswer> {
    if (this.underWay) throw new AgentDiscarded();
    this.underWay = true;
    try {
      await this.slot.starts.pending?.catch(() => undefined);
      return { reply: { kind: "result", value: await f() } };
    } finally {
      this.underWay = false;
      this.slot.starts.wake();
    }
  }
}
