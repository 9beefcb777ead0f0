/**
 * Serves one isolated agent in its own process: runs what the owner of its shard passes
 * (`IsolatedSlot`) in an ordinary `AgentSlot`. The process claims no shard and consumes no inbox.
 *
 * 1. Writes carry the owner's epoch and host id, so that a later owner's claim fences them off.
 * 2. Whether the lease is still held is checked by the owner, which answers the calls.
 * 3. Work from an owner of another epoch begins on a new slot.
 * 4. Where the agent's journal is damaged, everything is answered `condemned`: the owner
 *    quarantines the agent.
 */
import * as Effect from "effect/Effect";
import type { AgentId, Epoch, Sequence } from "../../schemas/Address.ts";
import type { SlotCall } from "../../schemas/bus/Call.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import { wholeCall } from "../../core/call/callBodies.ts";
import { LargeAnswers } from "../../core/call/LargeAnswers.ts";
import { errorReply } from "../../core/call/remoteError.ts";
import { interval } from "../../core/time/interval.ts";
import { TimeSlices } from "../../core/time/TimeSlices.ts";
import { AgentSlot } from "./AgentSlot.ts";
import type { HostServices } from "./HostServices.ts";
import type {
  IsolatedAsk,
  IsolatedOwner,
  IsolatedReply,
  OnAsk,
} from "../../core/input/Isolation.ts";
import { isTransient } from "./slotErrors.ts";
import { stackOf } from "../../core/errors/thrown.ts";

/** An agent leaves memory at most this much later than its class allows. */
const SWEEP_MS = 1_000;

/** Runs until the scope closes, and then hibernates the agent. */
export const serveIsolated = (services: HostServices, onAsk: OnAsk) =>
  Effect.acquireRelease(
    Effect.sync(() => new IsolatedAgent(services, onAsk)),
    (isolated) => Effect.promise(() => isolated.stop()),
  );

class IsolatedAgent {
  private readonly slices: TimeSlices;
  private readonly largeAnswers: LargeAnswers;
  private slot: AgentSlot | undefined;
  private epoch: Epoch | undefined;
  private lost = new AbortController();
  /** Answers all pending requests. */
  private readonly open = new Set<(reply: IsolatedReply) => void>();
  private readonly cancelSweep: () => void;

  constructor(
    private readonly services: HostServices,
    onAsk: OnAsk,
  ) {
    this.slices = new TimeSlices(services.time);
    this.largeAnswers = new LargeAnswers(services);
    onAsk((id, owner, ask, answer) => this.receive(id, owner, ask, answer));
    const { time } = services;
    this.cancelSweep = interval(time, SWEEP_MS, () => {
      this.slot?.hibernate(time.monotonicMs());
    });
  }

  get agentsActive(): number {
    return this.slot?.agent === undefined ? 0 : 1;
  }

  async stop(): Promise<void> {
    this.cancelSweep();
    this.largeAnswers.end();
    await this.slot?.drain(this.slices);
  }

  private receive(
    id: AgentId,
    owner: IsolatedOwner,
    ask: IsolatedAsk,
    send: (reply: IsolatedReply) => void,
  ): void {
    const slot = this.slotOf(id, owner);
    const answer = (reply: IsolatedReply): void => {
      if (this.open.delete(answer)) send(reply);
    };
    this.open.add(answer);
    if (ask.kind === "deliver") {
      const { seq, deliveries } = ask;
      return slot.deliver({
        id,
        seq: seq as Sequence,
        deliveries,
        ack: () => answer({ kind: "acked" }),
        nak: (delayMs) => answer({ kind: "nacked", delayMs }),
      });
    }
    if (ask.kind === "sockets") {
      for (const info of ask.sockets) slot.addSocket(info);
      return answer({ kind: "done" });
    }
    if (ask.kind === "drain") return void this.drain(slot).then(answer);
    if (ask.kind === "yield")
      return answer(
        leavesMemory(slot, this.services.time.monotonicMs())
          ? { kind: "drained", sockets: [...slot.sockets.values()] }
          : { kind: "busy" },
      );
    const { head, body } = decodeMessage<SlotCall>(Buffer.from(ask.data, "base64"));
    this.call(slot, head, body).then(answer, (error: unknown) => {
      if (isTransient(error))
        return answer({ kind: "failed", transient: true, message: String(error) });
      this.services.log.error("an agent could not answer", { ...id, error: stackOf(error) });
      const reply = encodeMessage(errorReply(error));
      answer({ kind: "answered", data: toText(reply) });
    });
  }

  private async drain(slot: AgentSlot): Promise<IsolatedReply> {
    // An agent that is just starting would run on beside its owner's.
    await slot.starts.pending?.catch(() => undefined);
    await slot.drain(this.slices);
    const sockets = [...slot.sockets.values()];
    // So would a call whose body is still being read.
    if (this.slot === slot) this.end();
    return { kind: "drained", sockets };
  }

  private async call(slot: AgentSlot, call: SlotCall, body: Uint8Array): Promise<IsolatedReply> {
    const whole = await wholeCall(this.services.blobs, call, body);
    const data = await this.largeAnswers.encode(await slot.call(call, whole));
    return { kind: "answered", data: toText(data) };
  }

  private slotOf(id: AgentId, { epoch, host }: IsolatedOwner): AgentSlot {
    if (this.slot === undefined || this.epoch !== epoch) {
      // Rule 3.
      this.end();
      this.lost = new AbortController();
      this.epoch = epoch;
      const { config } = this.services;
      const services = { ...this.services, config: { ...config, hostId: host } };
      // Rule 2.
      const ownership = { epoch, signal: this.lost.signal, isStillOurs: () => true as const };
      this.slot = new AgentSlot(id, {
        services,
        ...ownership,
        suspicious: true,
        quarantine: (_id, { kind: why, reason }) =>
          this.condemn({ kind: "condemned", why, reason }),
      });
    }
    return this.slot;
  }

  /** Rule 4. */
  private condemn(reply: IsolatedReply): void {
    this.end();
    for (const answer of this.open) answer(reply);
  }

  /** Nothing of the slot begins any more. */
  private end(): void {
    this.lost.abort();
    this.slot?.discard();
    this.slot = undefined;
  }
}

/** Hibernates the agent if it is idle. False while it is in memory, or starts. */
function leavesMemory(slot: AgentSlot, nowMs: number): boolean {
  if (slot.agent !== undefined) return slot.hibernate(nowMs, 0);
  return slot.starts.pending === undefined && !slot.starts.waits;
}

const toText = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
