/**
 * Sockets that are over for an agent: closed, or ended by a message that aborted it. A gateway whose answer was lost asks
 * again, and is told the same: `onClose` does not run twice, and what aborted an agent does not run again.
 *
 * 1. A close counts from when it is asked, for `onClose` may take longer than a gateway waits before it asks again.
 * 2. A socket that its gateway tells of anew is not over: the gateway was taken for dead.
 * 3. A message of a socket that was closed is not answered with its close, which would say that it was taken: the host itself
 *    closes sockets of a gateway that it takes for dead, and the gateway learns by this message that it did.
 * 4. Lost with the shard: the next owner is asked as if nothing had been done.
 *
 * Owned by `AgentSlot`, while it has anything here.
 */
import { AgentAborted } from "../../core/errors/errors.ts";
import { socketKey } from "../../core/runtime/AgentSockets.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { SparseMap } from "../../core/collections/sparse.ts";
import type { Call } from "../../schemas/Call.ts";

/** A gateway asks again for two minutes, after at most one without an answer. */
const KEPT_MS = 90_000;
/** Of one agent, oldest forgotten first: a crowd that leaves at once must not fill the memory. */
const KEPT_MAX = 1_000;

type SocketCall = Extract<Call, { readonly kind: "message" | "close" }>;

interface Ended {
  readonly by: SocketCall["kind"];
  readonly answer: Promise<CallAnswer>;
  readonly untilMs: number;
}

export class EndedSockets {
  /** By `socketKey`, oldest first. */
  private readonly ended = new SparseMap<string, Ended>();
  private readonly onAborted: (key: string) => void;

  /** `onAborted`: its gateway closes the socket of this `socketKey`, and tells nobody. */
  constructor(onAborted: (key: string) => void) {
    this.onAborted = onAborted;
  }

  get empty(): boolean {
    return this.ended.size === 0;
  }

  /** What was answered when the socket ended; else what `answer` gives, kept if it ends the socket. */
  async ask(
    call: SocketCall,
    nowMs: number,
    answer: () => Promise<CallAnswer>,
  ): Promise<CallAnswer> {
    const key = socketKey(call);
    const ended = this.ended.get(key);
    // Rule 3.
    if (ended !== undefined && (call.kind === "close" || ended.by === "message"))
      return ended.answer;
    const given = answer();
    // Rule 1.
    if (call.kind === "close") this.keep(key, { by: "close", answer: given }, nowMs);
    let isOver = false;
    try {
      const { reply } = await given;
      isOver = call.kind === "close" && reply.kind === "taken";
    } catch (error) {
      isOver = error instanceof AgentAborted;
      if (isOver) this.onAborted(key);
    }
    if (isOver) this.keep(key, { by: call.kind, answer: given }, nowMs);
    else if (this.ended.get(key)?.answer === given) this.ended.delete(key);
    return given;
  }

  /** Rule 2. */
  resumed(socket: { readonly gateway: string; readonly sid: string }): void {
    this.ended.delete(socketKey(socket));
  }

  /** Those that nobody asks about any more. */
  forget(nowMs: number): void {
    for (const [key, { untilMs }] of this.ended) {
      if (untilMs > nowMs) return;
      this.ended.delete(key);
    }
  }

  private keep(key: string, how: Pick<Ended, "by" | "answer">, nowMs: number): void {
    this.ended.set(key, { ...how, untilMs: nowMs + KEPT_MS });
    if (this.ended.size > KEPT_MAX) this.ended.delete(this.ended.keys().next().value!);
  }
}
