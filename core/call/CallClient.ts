/**
 * Calls an agent on whichever host owns it: for gateways, for stubs in the module's `fetch`, and
 * between agents.
 *
 * 1. While the shard has no owner, or the owner answers `notHere`, nothing was done: the call is
 *    sent again until its deadline.
 * 2. If the owner is lost while it has the call, the call may have run. A `repeatable` one is sent
 *    to the new owner; any other fails with `CallLost`. The answer `late` counts the same: it comes
 *    from an owner that was frozen past its lease, or whose agent was discarded during the call.
 * 3. `offer` and `give` send once, without waiting. Offers of one sender to an agent stay in order.
 * 4. An input for a shard of a host in this process is passed without a message (`serveInputs`).
 *    The outcome is the same (`test/system/directInput`), and each webhook saves the encoding.
 * 5. An agent's call is not sent again once that agent has left this host: the agent's next owner
 *    makes the call itself, and a late repetition must not follow what was decided since.
 * 6. A call may be what ended its host. It is repeated after one lost owner, marked as `suspect`,
 *    and fails with `CallLost` after `LOST_MAX`. Calls that a suspect's code makes are not
 *    repeated. An owner is lost when its lease ends without a release while it has the call; an
 *    answer `late` does not count, nor does anything while the broker is unreachable. A host that
 *    only stalled claims its own lease again within `RETURN_MS`, and then counts towards
 *    `LOSSES_MAX` only. A late call fails with `CallTimedOut` if host and broker were there.
 * 7. A call that too many agents wait for, each for the next, is refused (`callDepth`).
 */
import { shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";
import { isControl, type Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import { isProcess } from "../../schemas/bus/TargetCall.ts";
import type { BlobsShape } from "../journal/Blobs.ts";
import type { BusReply, BusShape } from "../bus/Bus.ts";
import type { LeaseChange } from "../lease/Leases.ts";
import type { TimeShape } from "../time/Time.ts";
import type { CallAnswer } from "./CallAnswer.ts";
import type { Abortable } from "../lazyFetch/AbortSource.ts";
import { cancellable } from "./CancellableCalls.ts";
import { CallTries } from "./CallTries.ts";
import { AgentUnreachable, CallDenied, CallLost, CallTimedOut } from "./AgentUnreachable.ts";
import { AnswerBudget } from "./AnswerBudget.ts";
import { encodeCall, wholeBody, type EncodedCall } from "./callBodies.ts";
import { deepened } from "./callDepth.ts";
import { ShardOwners } from "./ShardOwners.ts";
import { sleep } from "../time/sleep.ts";

export interface CallResult {
  readonly reply: CallReply;
  readonly body: Uint8Array;
}

type ServeInput = (id: AgentId, head: InboxHead, body: Uint8Array) => Promise<CallAnswer>;

interface Caller {
  readonly isLost: boolean;
  /** What may have ended a host before (rule 6): whether it runs any. */
  readonly suspects: { readonly any: boolean };
}

export interface CallOptions {
  /** The name of the callee in errors. Default: the agent. */
  readonly what?: string;
  readonly body?: Uint8Array | undefined;
  readonly deadlineMs: number;
  readonly repeatable: boolean;
  /** Earlier attempts of the same call. Default: none. */
  readonly tries?: CallTries;
  /**
   * Cancels the call: it rejects with the reason, is not repeated, and its host is notified, where
   * the signal of its turn aborts.
   */
  readonly abort?: Abortable | undefined;
  /** The stream of a `pull` is quiet (`AnswerBudget`). Default: false. */
  readonly quiet?: boolean;
  /**
   * Called before each repetition; an error that it throws ends the call. For callers that may
   * leave: an answer that is on its way is still awaited.
   */
  readonly beforeRepeat?: () => void;
}

interface OfferInput {
  readonly body: Uint8Array;
  readonly deadlineMs: number;
  /** Attempts of the same call; this one is added. */
  readonly tries?: CallTries;
}

/** The first and the longest pause between two tries while the shard is unowned. */
const RETRY_MS_MIN = 10;
const RETRY_MS_MAX = 250;
/** A request that ends earlier than this before its timeout has not timed out. */
const CLOCKS_MS = 100;
/** More than the head of any call that is offered, and the frame around it. */
const OFFER_HEAD_BYTES = 1024;
/** Rule 6: one repetition, for a host that was lost for another reason. */
const LOST_MAX = 2;
/** Rule 6: a call that stalls each host for longer than a lease must end, too. */
const LOSSES_MAX = 4;
/**
 * Rule 6: as long as a lease lives by default; a machine that is busy enough to stall a host does
 * so for less.
 */
const RETURN_MS = 5_000;

export class CallClient {
  private readonly parts: {
    readonly bus: BusShape;
    readonly blobs: BlobsShape;
    readonly time: TimeShape;
    readonly subjects: Subjects;
    readonly shards: number;
    /** The agent whose code calls (rule 5); undefined for any other caller. */
    readonly caller?: () => Caller | undefined;
    /** How many agents wait for what the running code does (rule 7). Default: none. */
    readonly depth?: () => number;
  };
  /** Rule 4. */
  private readonly servers = new Map<ShardId, ServeInput>();
  private readonly owners = new ShardOwners();
  private readonly answers = new AnswerBudget();
  private closed = false;

  constructor(parts: CallClient["parts"]) {
    this.parts = parts;
  }

  /** As `ShardOwners.leaseChanged`: calls in flight to an owner that is lost end (rule 2). */
  leaseChanged(change: LeaseChange, before: string | undefined): void {
    this.owners.leaseChanged(change, before);
  }

  /**
   * The process stops: calls that wait or are in flight end with `AgentUnreachable`, and keep
   * nothing alive.
   */
  close(): void {
    this.closed = true;
    this.owners.abortAll();
  }

  /**
   * Rejects with `AgentUnreachable`, of which `CallLost` is one, with the reason of `abort`, and
   * with what `beforeRepeat` throws; with `CallTooDeep` where agents call each other without end.
   */
  call(id: AgentId, call: Call, options: CallOptions): Promise<CallResult> {
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
      return await this.ask(id, encoded, options);
    } finally {
      // A blob that stays behind only costs space.
      if (blob !== undefined) void blobs.remove(blob).catch(() => undefined);
    }
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
   * Rule 3: one try of a call that `fits`, sent before this returns. Undefined: no owner, or no
   * answer, and the call may have run. Rejects only for an unreadable answer.
   */
  async offer(id: AgentId, call: Call, input: OfferInput): Promise<CallReply | undefined> {
    const reply = await this.tryOnce(id, call, input);
    return reply === undefined ? undefined : decodeMessage<CallReply>(reply).head;
  }

  /**
   * Rule 3: passes a durable input that is not stored to its agent's host. Unless the reply is
   * `done` or `stored`, the caller has to store it. The reply may name a blob with its body.
   */
  give(id: AgentId, head: InboxHead, input: OfferInput): Promise<CallAnswer | undefined> {
    const serve = this.servers.get(shardOf(id, this.parts.shards));
    return serve !== undefined && !this.closed
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

  /** Rule 4. The returned function ends it; a later one for the same shard stays. */
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
    if (this.closed) return undefined;
    const shard = shardOf(id, shards);
    tries?.sent(this.owners.lossesOf(shard).count);
    const reply = await bus.request(subjects.call(shard, id), encodeMessage(call, body), {
      timeoutMs: deadlineMs,
      signal: this.owners.signalOf(shard),
    });
    if (tries !== undefined) this.heard(tries, reply);
    return reply._tag === "Reply" ? reply.data : undefined;
  }

  /** Rule 6: notes what the outcome says about the last try. */
  private heard(tries: CallTries, { _tag }: BusReply): void {
    if (_tag === "Reply") tries.answered();
    else if (_tag === "NoResponders" || _tag === "Denied" || !this.parts.bus.connected())
      tries.notBegun();
  }

  private async ask(id: AgentId, encoded: EncodedCall, options: CallOptions): Promise<CallResult> {
    const { bus, time, subjects, shards } = this.parts;
    const { deadlineMs, repeatable, tries = new CallTries(), beforeRepeat, abort } = options;
    const { what = `Agent ${id.class}/${id.name}` } = options;
    const shard = shardOf(id, shards);
    const subject = isControl(encoded.call)
      ? subjects.control(shard, id)
      : subjects.call(shard, id);
    const endMs = time.monotonicMs() + deadlineMs;
    const caller = this.parts.caller?.();
    const lostMax = repeatable && caller?.suspects.any !== true ? LOST_MAX : 1;
    const isOver = (): boolean => tries.hasLost(lostMax, LOSSES_MAX);
    const pause = async (ms: number): Promise<void> => {
      await sleep(time, ms);
      if (caller?.isLost === true) throw unreachable(what, "the agent that called it has left this host"); // prettier-ignore
      if (abort?.fired === true) throw abort.reason;
      beforeRepeat?.();
    };
    let { data } = encoded;
    /** Rule 6: before the call fails, a lost host may come back until then. */
    let returnEndMs: number | undefined;
    /** Why the call fails at its deadline. */
    let why = UNOWNED;
    /** Whether a host had the call for most of the time, and was not lost. */
    let isSilent = false;
    for (let waitMs = RETRY_MS_MIN; ; waitMs = Math.min(waitMs * 2, RETRY_MS_MAX)) {
      const nowMs = time.monotonicMs();
      if (this.closed) throw unreachable(what, "this process stops");
      const losses = this.owners.lossesOf(shard);
      tries.count(losses.count, losses.host);
      if (isOver()) {
        returnEndMs ??= nowMs + RETURN_MS;
        if (nowMs < returnEndMs) {
          await pause(waitMs);
          continue;
        }
        returnEndMs = undefined;
        tries.forget((host) => this.owners.isAlive(host));
        if (isOver()) throw lost(what, HOST_LOST);
      }
      const leftMs = endMs - nowMs;
      if (leftMs <= 0) throw isSilent ? timedOut(what, deadlineMs) : unreachable(what, why);
      if (tries.isSuspect) {
        beforeRepeat?.();
        data = encodeMessage({ ...encoded.call, suspect: true }, encoded.body);
      }
      tries.sent(losses.count);
      const signal = this.owners.signalOf(shard);
      const reply = await bus.request(subject, data, { timeoutMs: leftMs, signal });
      this.heard(tries, reply);
      if (reply._tag === "Reply") {
        const { head, body } = decodeMessage<CallReply>(reply.data);
        if (head.kind !== "notHere")
          return { reply: head, body: await wholeBody(this.parts.blobs, head, body) };
        tries.refused(head);
        why = UNOWNED;
        if (head.late === true && !repeatable) throw lost(what, "its host has just changed");
      } else if (reply._tag === "NoResponders") {
        why = UNOWNED;
      } else if (reply._tag === "Denied") {
        throw denied(what, reply.message);
      } else {
        const isLost = this.owners.lossesOf(shard) !== losses;
        const isEarly = endMs - time.monotonicMs() > CLOCKS_MS;
        isSilent = !isLost && !isEarly && !this.closed && leftMs > deadlineMs / 2;
        if (isEarly && !isLost) why = BROKER_LOST;
        if (!repeatable && isLost) throw lost(what, HOST_LOST);
        if (!repeatable && this.closed) throw lost(what, "this process stops");
        if (!repeatable) throw isEarly ? lost(what, BROKER_LOST) : timedOut(what, deadlineMs);
      }
      await pause(Math.min(waitMs, Math.max(0, endMs - time.monotonicMs())));
    }
  }
}

const unreachable = (what: string, why: string): AgentUnreachable =>
  new AgentUnreachable({ message: `${what} can't be reached: ${why}` });

const denied = (what: string, why: string): CallDenied =>
  new CallDenied({ message: `${what} can't be reached: ${why}` });

const timedOut = (what: string, deadlineMs: number): CallTimedOut =>
  new CallTimedOut({
    message: `${what} did not answer within ${deadlineMs / 1000} s; its turn may still run, or have run`,
  });

const UNOWNED = "no host owns it, or its host did not take the call";
const BROKER_LOST = "the connection to the broker was lost";
const HOST_LOST = "its host was lost while it had the call";
const lost = (what: string, why: string): CallLost =>
  new CallLost({ message: `${what} can't be reached: ${why}; the call may have run` });
