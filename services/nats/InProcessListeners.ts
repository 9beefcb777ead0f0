/**
 * In-process delivery on the bus. A message for a subject on which only this process listens never
 * reaches the broker: a gateway and a host in one process, and agents of one host that call each
 * other, save the round trip.
 *
 * 1. A message is delivered in a later microtask, in the order of the calls.
 * 2. The listener does not inherit the caller's ambient context. It would take the calling agent
 *    for its own.
 * 3. A request ends exactly once: with the first answer, at its timeout, or when its signal fires.
 *    The state of the broker connection does not affect it.
 * 4. One interval checks timeouts and signals, only while a request is pending. A timer and an
 *    abort listener for each request would cost a tenth of the throughput.
 *
 * Fed by `NatsBus`. A subject is exact, or ends in `.>`.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { BusMessage, BusReply } from "../../core/bus/Bus.ts";
import { NumberedTable, numberOf, numberText } from "../../core/collections/NumberedTable.ts";
import { SubjectTable } from "./SubjectTable.ts";

type Handler = (message: BusMessage) => void;

/** Start of the reply subjects of in-process requests. No broker ever receives one. */
const ANSWER_PREFIX = "\u0000answer.";
/** The longest delay with which timeouts and signals are noticed. No caller needs less. */
const SWEEP_MS = 25;

interface PendingRequest {
  readonly resolve: (answer: BusReply) => void;
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}

export class InProcessListeners {
  private readonly handlers = new SubjectTable<Handler>();
  /** By the part of the reply subject after `ANSWER_PREFIX`. */
  private readonly pending = new NumberedTable<PendingRequest>();
  private sweeper: NodeJS.Timeout | undefined;

  /**
   * Replaces an earlier listener on the same pattern. The returned function removes this listener
   * and leaves one that has replaced it.
   */
  add(pattern: string, handler: Handler): () => void {
    const outside = AsyncLocalStorage.snapshot();
    const detached: Handler = (message) => outside(handler, message);
    this.handlers.set(pattern, detached);
    return () => {
      if (this.handlers.get(pattern) === detached) this.handlers.delete(pattern);
    };
  }

  /** The exclusive listener on the subject in this process. Rule 2 holds for the result. */
  find(subject: string): Handler | undefined {
    return this.handlers.find(subject);
  }

  /** Returns whether a listener, or a pending request, took the message. */
  publish(subject: string, data: Uint8Array, reply: string | undefined): boolean {
    if (subject.startsWith(ANSWER_PREFIX)) {
      this.finish(numberOf(subject.slice(ANSWER_PREFIX.length)), { _tag: "Reply", data });
      return true;
    }
    const handler = this.find(subject);
    if (handler === undefined) return false;
    queueMicrotask(() => handler({ subject, data, reply }));
    return true;
  }

  /** Returns undefined when this process has no exclusive listener on the subject. */
  request(
    subject: string,
    data: Uint8Array,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<BusReply> | undefined {
    const handler = this.find(subject);
    if (handler === undefined) return undefined;
    if (signal?.aborted === true) return Promise.resolve({ _tag: "TimedOut" });
    return new Promise((resolve) => {
      const id = this.pending.next();
      const reply = ANSWER_PREFIX + numberText(id);
      this.pending.set(id, { resolve, signal, deadlineMs: performance.now() + timeoutMs });
      this.sweeper ??= setInterval(() => this.sweep(), SWEEP_MS);
      queueMicrotask(() => handler({ subject, data, reply }));
    });
  }

  private finish(id: number, answer: BusReply): void {
    this.pending.take(id)?.resolve(answer);
  }

  /** Rule 4. */
  private sweep(): void {
    if (this.pending.size === 0) {
      clearInterval(this.sweeper);
      this.sweeper = undefined;
      return;
    }
    const nowMs = performance.now();
    for (const [id, { deadlineMs, signal }] of this.pending.entries())
      if (signal?.aborted === true || deadlineMs <= nowMs) this.finish(id, { _tag: "TimedOut" });
  }
}
