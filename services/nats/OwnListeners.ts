/**
 * What this process publishes or asks on a subject where it alone listens: it stays in it. Gateway and host
 * in one process, and agents of one host that call each other, need no broker for that, and no round trip.
 *
 * 1. A message is handed over in a later microtask, in the order of the calls.
 * 2. The listener does not inherit the ambient context of who calls: it would see the calling agent as its own.
 * 3. A request ends once: with the first answer, at its timeout or at its signal. The connection to the
 *    broker has no part in it.
 * 4. One interval looks at timeouts and signals, only while something is awaited: a timer and a listener for each
 *    request would cost a tenth of it.
 *
 * Fed by `NatsBus`. A subject is exact, or ends in `.>`.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { BusMessage, BusReply } from "../../core/bus/Bus.ts";
import { NumberedTable, numberOf, numberText } from "../../core/collections/NumberedTable.ts";
import { SubjectTable } from "./SubjectTable.ts";

type Handler = (message: BusMessage) => void;

/** Of the subjects that answers to such requests go to; no broker ever sees one. */
const ANSWER_PREFIX = "\u0000answer.";
/** Timeouts and signals are noticed this late at most; nobody times anything by them. */
const SWEEP_MS = 25;

interface Waiter {
  readonly resolve: (answer: BusReply) => void;
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}

export class OwnListeners {
  private readonly handlers = new SubjectTable<Handler>();
  /** By what follows `ANSWER_PREFIX` in the subject of the answer. */
  private readonly waiting = new NumberedTable<Waiter>();
  private sweeper: NodeJS.Timeout | undefined;

  /** The returned function ends it; a later listener on the same subject stays. */
  add(pattern: string, handler: Handler): () => void {
    const outside = AsyncLocalStorage.snapshot();
    const detached: Handler = (message) => outside(handler, message);
    this.handlers.set(pattern, detached);
    return () => {
      if (this.handlers.get(pattern) === detached) this.handlers.delete(pattern);
    };
  }

  /** Who listens alone on it here; not in the ambient context of who calls it. */
  find(subject: string): Handler | undefined {
    return this.handlers.find(subject);
  }

  /** Says whether it was taken: by a listener, or as the answer to a request. */
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

  /** Undefined: nobody here listens alone. */
  request(
    subject: string,
    data: Uint8Array,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<BusReply> | undefined {
    const handler = this.find(subject);
    if (handler === undefined) return undefined;
    if (signal?.aborted === true) return Promise.resolve({ _tag: "TimedOut" });
    return new Promise((resolve) => {
      const id = this.waiting.next();
      const reply = ANSWER_PREFIX + numberText(id);
      this.waiting.set(id, { resolve, signal, deadlineMs: performance.now() + timeoutMs });
      this.sweeper ??= setInterval(() => this.sweep(), SWEEP_MS);
      queueMicrotask(() => handler({ subject, data, reply }));
    });
  }

  private finish(id: number, answer: BusReply): void {
    this.waiting.take(id)?.resolve(answer);
  }

  /** Rule 4. */
  private sweep(): void {
    if (this.waiting.size === 0) {
      clearInterval(this.sweeper);
      this.sweeper = undefined;
      return;
    }
    const nowMs = performance.now();
    for (const [id, { deadlineMs, signal }] of this.waiting.entries())
      if (signal?.aborted === true || deadlineMs <= nowMs) this.finish(id, { _tag: "TimedOut" });
  }
}
