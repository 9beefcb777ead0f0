/**
 * The ended sockets of an agent: sockets that were closed, or that sent a message that aborted it.
 * A gateway whose answer was lost asks again and receives the same answer. `onClose` does not run
 * twice, and a message that aborted an agent does not run again.
 *
 * 1. A close is recorded when it is requested, because `onClose` may take longer than a gateway
 *    waits before it asks again.
 * 2. A socket that its gateway reports again has not ended: the gateway was wrongly considered
 *    dead.
 * 3. A message of a closed socket is not answered with the close, which would say that the message
 *    was accepted. The host itself closes the sockets of a gateway that it takes for dead, and the
 *    gateway learns of it from the answer to this message.
 * 4. The record is lost with the shard: the next owner runs the call as if nothing had been done.
 *
 * Owned by `AgentSlot`.
 */
import { AgentAborted } from "../../../core/errors/errors.ts";
import type { CallAnswer } from "../../../core/call/CallAnswer.ts";
import { withEntry, without } from "../../../core/collections/sparse.ts";
import type { Call } from "../../../schemas/bus/Call.ts";
import { socketKey } from "../../../schemas/bus/GatewayMessage.ts";

/** A gateway repeats a call for two minutes, and waits at most one minute for an answer. */
const KEPT_MS = 90_000;
/** Per agent, the oldest forgotten first: a crowd that leaves at once must not fill the memory. */
const KEPT_MAX = 1_000;

type SocketCall = Extract<Call, { readonly kind: "message" | "close" }>;

interface Ended {
  readonly by: SocketCall["kind"];
  readonly answer: Promise<CallAnswer>;
  readonly untilMs: number;
}

export class EndedSockets {
  /** By `socketKey`, oldest first. */
  private ended: Map<string, Ended> | undefined;

  /**
   * `open` are the agent's open sockets by `socketKey`. A socket whose message aborted the agent is
   * removed from them: its gateway closes it without a further call.
   */
  constructor(private readonly open: { delete(key: string): void }) {}

  get empty(): boolean {
    return this.ended === undefined;
  }

  /**
   * Returns the answer that ended the socket, if it has ended. Otherwise returns what `answer`
   * does, and keeps that if it ends the socket. Rejects as `answer` does.
   */
  async ask(
    call: SocketCall,
    nowMs: number,
    answer: () => Promise<CallAnswer>,
  ): Promise<CallAnswer> {
    const key = socketKey(call);
    const ended = this.ended?.get(key);
    // Rule 3.
    if (ended !== undefined && (call.kind === "close" || ended.by === "message"))
      return ended.answer;
    const answered = answer();
    // Rule 1.
    if (call.kind === "close") this.keep(key, { by: "close", answer: answered }, nowMs);
    let isOver = false;
    try {
      const { reply } = await answered;
      isOver = call.kind === "close" && reply.kind === "taken";
    } catch (error) {
      isOver = error instanceof AgentAborted;
      if (isOver) this.open.delete(key);
    }
    if (isOver) this.keep(key, { by: call.kind, answer: answered }, nowMs);
    else if (this.ended?.get(key)?.answer === answered) this.forgetOne(key);
    return answered;
  }

  /** Rule 2. */
  resumed(socket: { readonly gateway: string; readonly sid: string }): void {
    this.forgetOne(socketKey(socket));
  }

  /** Removes the records that no gateway asks about any more. `nowMs` is monotonic. */
  forget(nowMs: number): void {
    for (const [key, { untilMs }] of this.ended ?? []) {
      if (untilMs > nowMs) return;
      this.forgetOne(key);
    }
  }

  private keep(key: string, how: Pick<Ended, "by" | "answer">, nowMs: number): void {
    this.ended = withEntry(this.ended, key, { ...how, untilMs: nowMs + KEPT_MS });
    if (this.ended.size > KEPT_MAX) this.forgetOne(this.ended.keys().next().value!);
  }

  private forgetOne(key: string): void {
    this.ended = without(this.ended, key);
  }
}
