/**
 * One call to an agent, until it ends: it is sent again while that is safe, until a host answers it
 * or its deadline passes. `CallClient` makes one for each call.
 *
 * 1. While the shard has no owner, or the owner answers `notHere`, nothing was done: the call is
 *    sent again until its deadline.
 * 2. If the owner is lost while it has the call, the call may have run. A `repeatable` one is sent
 *    to the new owner; any other fails with `CallLost`. The answer `late` counts the same: it comes
 *    from an owner that was frozen past its lease, or whose agent was discarded during the call.
 * 3. An agent's call is not sent again once that agent has left this host: the agent's next owner
 *    makes the call itself, and a late repetition must not follow what was decided since.
 * 4. A call may be what ended its host. It is repeated after one lost owner, marked as `suspect`,
 *    and fails with `CallLost` after `LOST_MAX`. Calls that a suspect's code makes are not
 *    repeated. An owner is lost when its lease ends without a release while it has the call; an
 *    answer `late` does not count, nor does anything while the broker is unreachable. A host that
 *    only stalled claims its own lease again within `RETURN_MS`, and then counts towards
 *    `LOSSES_MAX` only. A late call fails with `CallTimedOut` if host and broker were there.
 */
import type { AgentId, ShardId } from "../../schemas/Address.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { BusReply, BusShape } from "../bus/Bus.ts";
import type { BlobsShape } from "../journal/Blobs.ts";
import type { Abortable } from "../lazyFetch/AbortSource.ts";
import { sleep } from "../time/sleep.ts";
import type { TimeShape } from "../time/Time.ts";
import { AgentUnreachable, CallDenied, CallLost, CallTimedOut } from "./AgentUnreachable.ts";
import { wholeBody, type EncodedCall } from "./callBodies.ts";
import { CallTries } from "./CallTries.ts";
import type { Losses, ShardOwners } from "./ShardOwners.ts";

export interface CallResult {
  readonly reply: CallReply;
  readonly body: Uint8Array;
}

/** The agent whose code calls. */
export interface Caller {
  readonly image: { readonly id: AgentId };
  readonly isLost: boolean;
  /** What may have ended a host before (rule 4): whether it runs any. */
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

interface Ports {
  readonly bus: Pick<BusShape, "request" | "connected">;
  readonly blobs: BlobsShape;
  readonly time: TimeShape;
  readonly owners: ShardOwners;
}

/** Where the call goes, and who makes it. */
interface Route {
  readonly shard: ShardId;
  readonly subject: string;
  /** The callee's name in errors. */
  readonly what: string;
  /** Undefined: no agent's code calls. */
  readonly caller: Caller | undefined;
}

/** The first and the longest pause between two tries while the shard is unowned. */
const RETRY_MS_MIN = 10;
const RETRY_MS_MAX = 250;
/** A request that ends earlier than this before its timeout has not timed out. */
const CLOCKS_MS = 100;
/** Rule 4: one repetition, for a host that was lost for another reason. */
const LOST_MAX = 2;
/** Rule 4: a call that stalls each host for longer than a lease must end, too. */
const LOSSES_MAX = 4;
/** Rule 4: as long as a lease lives by default; a busy machine stalls a host for less. */
const RETURN_MS = 5_000;

export class RepeatedCall {
  private readonly tries: CallTries;
  private readonly lostMax: number;
  private readonly endMs: number;
  /** Rule 4: before the call fails, a lost host may come back until then. */
  private returnEndMs: number | undefined;
  /** Why the call fails at its deadline. */
  private why = UNOWNED;
  /** Whether a host had the call for most of the time, and was not lost. */
  private isSilent = false;

  constructor(
    private readonly ports: Ports,
    private readonly route: Route,
    private readonly encoded: EncodedCall,
    private readonly options: CallOptions,
  ) {
    const { tries = new CallTries(), repeatable, deadlineMs } = options;
    this.tries = tries;
    this.lostMax = repeatable && route.caller?.suspects.any !== true ? LOST_MAX : 1;
    this.endMs = ports.time.monotonicMs() + deadlineMs;
  }

  /** Rejects as `CallClient.call`. */
  async run(): Promise<CallResult> {
    const { bus, blobs, time, owners } = this.ports;
    const { shard, subject, what } = this.route;
    for (let waitMs = RETRY_MS_MIN; ; waitMs = Math.min(waitMs * 2, RETRY_MS_MAX)) {
      const nowMs = time.monotonicMs();
      if (owners.closed) throw unreachable(what, "this process stops");
      const losses = owners.lossesOf(shard);
      this.tries.count(losses.count, losses.host);
      if (this.awaitsReturn(nowMs)) {
        await this.pause(waitMs);
        continue;
      }
      const leftMs = this.endMs - nowMs;
      if (leftMs <= 0) throw this.expired();
      const data = this.message();
      this.tries.sent(losses.count);
      const signal = owners.signalOf(shard);
      const reply = await bus.request(subject, data, { timeoutMs: leftMs, signal });
      this.tries.heard(reply, bus);
      if (reply._tag === "Reply") {
        const { head, body } = decodeMessage<CallReply>(reply.data);
        if (head.kind !== "notHere")
          return { reply: head, body: await wholeBody(blobs, head, body) };
        this.refused(head);
      } else this.unanswered(reply, losses, leftMs);
      await this.pause(Math.min(waitMs, Math.max(0, this.endMs - time.monotonicMs())));
    }
  }

  /** Whether to wait for the hosts that were lost. Throws if they have not come back (rule 4). */
  private awaitsReturn(nowMs: number): boolean {
    if (!this.isOver) return false;
    this.returnEndMs ??= nowMs + RETURN_MS;
    if (nowMs < this.returnEndMs) return true;
    this.returnEndMs = undefined;
    this.tries.forget((host) => this.ports.owners.isAlive(host));
    if (this.isOver) throw lost(this.route.what, HOST_LOST);
    return false;
  }

  private get isOver(): boolean {
    return this.tries.hasLost(this.lostMax, LOSSES_MAX);
  }

  private async pause(ms: number): Promise<void> {
    const { caller, what } = this.route;
    const { abort, beforeRepeat } = this.options;
    await sleep(this.ports.time, ms);
    if (caller?.isLost === true)
      throw unreachable(what, "the agent that called it has left this host");
    if (abort?.fired === true) throw abort.reason;
    beforeRepeat?.();
  }

  private message(): Uint8Array {
    const { call, body, data } = this.encoded;
    if (!this.tries.isSuspect) return data;
    this.options.beforeRepeat?.();
    return encodeMessage({ ...call, suspect: true }, body);
  }

  /** Throws if the call may have run, and can't be repeated (rule 2). */
  private refused(head: CallReply & { readonly kind: "notHere" }): void {
    this.tries.refused(head);
    this.why = UNOWNED;
    if (head.late === true && !this.options.repeatable)
      throw lost(this.route.what, "its host has just changed");
  }

  /** As `refused`, for a try that no host has answered. `losses`: the shard's when it was sent. */
  private unanswered(reply: Unanswered, losses: Losses, leftMs: number): void {
    const { owners, time } = this.ports;
    const { shard, what } = this.route;
    const { deadlineMs, repeatable } = this.options;
    if (reply._tag === "Denied") throw denied(what, reply.message);
    if (reply._tag === "NoResponders") {
      this.why = UNOWNED;
      return;
    }
    const isLost = owners.lossesOf(shard) !== losses;
    const isEarly = this.endMs - time.monotonicMs() > CLOCKS_MS;
    this.isSilent = !isLost && !isEarly && !owners.closed && leftMs > deadlineMs / 2;
    if (isEarly && !isLost) this.why = BROKER_LOST;
    if (repeatable) return;
    if (isLost) throw lost(what, HOST_LOST);
    if (owners.closed) throw lost(what, "this process stops");
    throw isEarly ? lost(what, BROKER_LOST) : timedOut(what, deadlineMs);
  }

  private expired(): AgentUnreachable {
    const { what } = this.route;
    return this.isSilent ? timedOut(what, this.options.deadlineMs) : unreachable(what, this.why);
  }
}

type Unanswered = Exclude<BusReply, { readonly _tag: "Reply" }>;

export const unreachable = (what: string, why: string): AgentUnreachable =>
  new AgentUnreachable({ message: `${what} can't be reached: ${why}` });

export const denied = (what: string, why: string): CallDenied =>
  new CallDenied({ message: `${what} can't be reached: ${why}` });

const timedOut = (what: string, deadlineMs: number): CallTimedOut =>
  new CallTimedOut({
    message: `${what} did not answer within ${deadlineMs / 1000} s; its turn may still run, or have run`,
  });

const UNOWNED = "no host owns it, or its host did not take the call";
const BROKER_LOST = "the connection to the broker was lost";
const HOST_LOST = "its host was lost while it had the call";
export const lost = (what: string, why: string): CallLost =>
  new CallLost({ message: `${what} can't be reached: ${why}; the call may have run` });
