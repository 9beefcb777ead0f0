/**
 * Calls an agent on whichever host owns it: for gateways, for stubs in the module's `fetch`, and
 * between agents.
 *
 * 1. A `call` is repeated while that is safe (`RepeatedCall`).
 * 2. `offer` and `give` send once, without waiting. Offers of one sender to an agent stay in order.
 * 3. An input for a shard of a host in this process is passed without a message (`serveInputs`).
 *    The outcome is the same (`test/system/directInput`), and each webhook saves the encoding.
 * 4. The calls of agents' code begin in short slices of time (`callSlicesOf`).
 * 5. A call that too many agents wait for, each for the next, is refused (`callDepth`).
 */
import { shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";
import { isControl, type Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import { isProcess } from "../../schemas/bus/TargetCall.ts";
import type { BlobsShape } from "../journal/Blobs.ts";
import type { BusShape } from "../bus/Bus.ts";
import type { LeaseChange } from "../lease/Leases.ts";
import type { TimeShape } from "../time/Time.ts";
import { callSlicesOf } from "../time/TimeSlices.ts";
import type { CallAnswer } from "./CallAnswer.ts";
import { cancellable } from "./cancellableCalls.ts";
import type { CallTries } from "./CallTries.ts";
import { AnswerBudget } from "./AnswerBudget.ts";
import { encodeCall } from "./callBodies.ts";
import { deepened } from "./callDepth.ts";
import {
  denied,
  lost,
  RepeatedCall,
  unreachable,
  type Caller,
  type CallOptions,
  type CallResult,
} from "./RepeatedCall.ts";
import { ShardOwners } from "./ShardOwners.ts";

type ServeInput = (id: AgentId, head: InboxHead, body: Uint8Array) => Promise<CallAnswer>;

interface OfferInput {
  readonly body: Uint8Array;
  readonly deadlineMs: number;
  /** Attempts of the same call; this one is added. */
  readonly tries?: CallTries;
}

/** More than the head of any call that is offered, and the frame around it. */
const OFFER_HEAD_BYTES = 1024;

export class CallClient {
  private readonly parts: {
    readonly bus: BusShape;
    readonly blobs: BlobsShape;
    readonly time: TimeShape;
    readonly subjects: Subjects;
    readonly shards: number;
    /** The agent whose code calls; undefined for any other caller. */
    readonly caller?: () => Caller | undefined;
    /** How many agents wait for what the running code does (rule 5). Default: none. */
    readonly depth?: () => number;
  };
  /** Rule 3. */
  private readonly servers = new Map<ShardId, ServeInput>();
  private readonly owners = new ShardOwners();
  private readonly answers = new AnswerBudget();
  /** What its repeated calls use. */
  private readonly ports: ConstructorParameters<typeof RepeatedCall>[0];

  constructor(parts: CallClient["parts"]) {
    this.parts = parts;
    this.ports = { bus: parts.bus, blobs: parts.blobs, time: parts.time, owners: this.owners };
  }

  /** As `ShardOwners.leaseChanged`: calls in flight to an owner that is lost end. */
  leaseChanged(change: LeaseChange, before: string | undefined): void {
    this.owners.leaseChanged(change, before);
  }

  /** The process stops: calls under way end with `AgentUnreachable`, and keep nothing alive. */
  close(): void {
    this.owners.close();
  }

  /**
   * Rejects with `AgentUnreachable`, of which `CallLost` is one, with the reason of `abort`, and
   * with what `beforeRepeat` throws; with `CallTooDeep` where agents call each other without end.
   */
  call(id: AgentId, call: Call, options: CallOptions): Promise<CallResult> {
    const { caller, time } = this.parts;
    const from = caller?.()?.image.id;
    const pause = from && callSlicesOf(time).turn(from);
    return pause === undefined
      ? this.callNow(id, call, options)
      : pause.then(() => this.callNow(id, call, options));
  }

  private callNow(id: AgentId, call: Call, options: CallOptions): Promise<CallResult> {
    const { abort, quiet = false } = options;
    return this.answers.share(call, quiet, (bounded) => {
      if (abort === undefined) return this.toTheEnd(id, bounded, options);
      return cancellable(this.parts, id, { call: bounded, abort }, (named) =>
        this.toTheEnd(id, named, options),
      );
    });
  }

  private async toTheEnd(id: AgentId, call: Call, options: CallOptions): Promise<CallResult> {
    if (isProcess(id)) return this.askProcess(id, call, options);
    const { blobs, depth } = this.parts;
    const { blob, ...encoded } = await encodeCall(
      this.parts,
      deepened(id, call, depth?.()),
      options.body,
    );
    try {
      const route = this.routeOf(id, encoded.call, options);
      return await new RepeatedCall(this.ports, route, encoded, options).run();
    } finally {
      // A blob that stays behind only costs space.
      if (blob !== undefined) void blobs.remove(blob).catch(() => undefined);
    }
  }

  private routeOf(id: AgentId, call: Call, options: CallOptions) {
    const { subjects, shards, caller } = this.parts;
    const { what = `Agent ${id.class}/${id.name}` } = options;
    const shard = shardOf(id, shards);
    const subject = isControl(call) ? subjects.control(shard, id) : subjects.call(shard, id);
    return { shard, subject, what, caller: caller?.() };
  }

  /** A process has no successor: nothing is repeated. */
  private async askProcess(id: AgentId, call: Call, options: CallOptions): Promise<CallResult> {
    const { bus, subjects } = this.parts;
    const { deadlineMs: timeoutMs, what = `The process ${id.name}` } = options;
    const reply = await bus.request(subjects.process(id.name), encodeMessage(call), { timeoutMs });
    if (reply._tag === "NoResponders") throw unreachable(what, "it has ended");
    if (reply._tag === "Denied") throw denied(what, reply.message);
    if (reply._tag === "TimedOut") throw lost(what, "it did not answer");
    const { head, body } = decodeMessage<CallReply>(reply.data);
    return { reply: head, body };
  }

  /** Whether a message has room for it, without the blob store. */
  fits(body: Uint8Array): boolean {
    return body.length + OFFER_HEAD_BYTES <= this.parts.bus.payloadBytesMax;
  }

  /**
   * Rule 2: one try of a call that `fits`, sent before this returns. Undefined: no owner, or no
   * answer, and the call may have run. Rejects only for an unreadable answer.
   */
  async offer(id: AgentId, call: Call, input: OfferInput): Promise<CallReply | undefined> {
    const reply = await this.tryOnce(id, call, input);
    return reply === undefined ? undefined : decodeMessage<CallReply>(reply).head;
  }

  /**
   * Rule 2: passes a durable input that is not stored to its agent's host. Unless the reply is
   * `done` or `stored`, the caller has to store it. The reply may name a blob with its body.
   */
  give(id: AgentId, head: InboxHead, input: OfferInput): Promise<CallAnswer | undefined> {
    const serve = this.servers.get(shardOf(id, this.parts.shards));
    return serve !== undefined && !this.owners.closed
      ? serve(id, head, input.body)
      : this.giveAway(id, head, input);
  }

  private async giveAway(
    id: AgentId,
    head: InboxHead,
    input: OfferInput,
  ): Promise<CallAnswer | undefined> {
    const reply = await this.tryOnce(id, { kind: "input", head }, input);
    if (reply === undefined) return undefined;
    const { head: answer, body } = decodeMessage<CallReply>(reply);
    return { reply: answer, body };
  }

  /** Rule 3. The returned function ends it; a later one for the same shard stays. */
  serveInputs(shard: ShardId, serve: ServeInput): () => void {
    this.servers.set(shard, serve);
    return () => {
      if (this.servers.get(shard) === serve) this.servers.delete(shard);
    };
  }

  private async tryOnce(
    id: AgentId,
    call: Call,
    { body, deadlineMs, tries }: OfferInput,
  ): Promise<Uint8Array | undefined> {
    const { bus, subjects, shards } = this.parts;
    if (this.owners.closed) return undefined;
    const shard = shardOf(id, shards);
    tries?.sent(this.owners.lossesOf(shard).count);
    const reply = await bus.request(subjects.call(shard, id), encodeMessage(call, body), {
      timeoutMs: deadlineMs,
      signal: this.owners.signalOf(shard),
    });
    tries?.heard(reply, bus);
    return reply._tag === "Reply" ? reply.data : undefined;
  }
}
