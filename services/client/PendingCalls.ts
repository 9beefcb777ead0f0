/**
 * The calls of one connection that wait for a reply: matches replies by id, times calls out,
 * rejects them.
 *
 * 1. A call whose frame was transmitted may have run. It rejects when its connection is lost, and
 *    is never sent again.
 * 2. A call whose frame is still in the send buffer has not run. It survives a lost connection and
 *    is sent by the next one.
 */
import type { StreamOptions } from "./clientTypes.ts";
import type { Reply } from "./serverFrame.ts";

/**
 * Limit for a missing reply, in milliseconds. Long enough for a slow model or provider behind a
 * method.
 */
export const DEFAULT_CALL_TIMEOUT_MS = 30_000;

interface PendingCall {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly stream: StreamOptions | undefined;
  readonly timer: ReturnType<typeof setTimeout> | undefined;
  /** The instance that holds the call now: its timer must fail the call there. */
  book: PendingCalls;
  transmitted: boolean;
}

/** One call. */
export interface CallRequest {
  readonly method: string;
  readonly stream: StreamOptions | undefined;
  /** Undefined or 0: no limit. */
  readonly timeoutMs: number | undefined;
}

/** The pending calls of one client. */
export class PendingCalls {
  readonly #calls = new Map<string, PendingCall>();
  /** Their replies may still come. */
  readonly #cancelled = new Set<string>();

  /**
   * Sends a call and waits for its reply. `send` passes the frame to the socket and returns
   * `transmitted` when it left, `buffered` when it waits for a connection, `dropped` when it was
   * discarded. Rejects with the reply's error, on timeout, and for a dropped frame.
   */
  start(
    id: string,
    { method, stream, timeoutMs }: CallRequest,
    send: () => "transmitted" | "buffered" | "dropped",
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timeout = (): void => {
        const text = `RPC call to ${method} timed out after ${timeoutMs}ms`;
        call.book.#fail(id, new Error(text));
      };
      const timer = timeoutMs ? setTimeout(timeout, timeoutMs) : undefined;
      const call: PendingCall = {
        resolve,
        reject,
        stream,
        timer,
        book: this,
        transmitted: false,
      };
      // Registered before sending, since a socket may answer at once.
      this.#calls.set(id, call);
      try {
        const sent = send();
        if (sent === "dropped")
          this.#fail(id, new Error(`RPC call to ${method} was dropped: the send buffer is full`));
        else call.transmitted = sent === "transmitted";
      } catch (error) {
        this.#fail(id, error instanceof Error ? error : new Error(String(error)));
      }
    });
  }

  /** Rejects a call that nobody waits for. Returns false for one that is over. */
  cancel(id: string, reason: Error): boolean {
    if (!this.#calls.has(id)) return false;
    this.#fail(id, reason);
    this.#cancelled.add(id);
    return true;
  }

  /** Applies a reply. Returns false when no call has or had this id. */
  settle(id: string, reply: Reply): boolean {
    const call = this.#calls.get(id);
    if (call === undefined) return this.#cancelled.has(id);
    if (reply._tag === "Failure") this.#fail(id, new Error(reply.error));
    else if (reply._tag === "Chunk") call.stream?.onChunk?.(reply.result);
    else {
      this.#take(id);
      call.resolve(reply.result);
      call.stream?.onDone?.(reply.result);
    }
    return true;
  }

  /** The send buffer was flushed. */
  markTransmitted(): void {
    for (const call of this.#calls.values()) call.transmitted = true;
  }

  /** Rule 1: the connection was lost. */
  rejectTransmitted(reason: string): void {
    this.#cancelled.clear();
    for (const [id, { transmitted }] of this.#calls)
      if (transmitted) this.#fail(id, new Error(reason));
  }

  /** Rejects every call. */
  rejectAll(reason: string): void {
    for (const id of this.#calls.keys()) this.#fail(id, new Error(reason));
  }

  /** Rule 2: moves buffered calls to the connection whose buffer has taken their frames. */
  moveBuffered(to: PendingCalls): void {
    for (const [id, call] of this.#calls) {
      if (call.transmitted) continue;
      this.#calls.delete(id);
      call.book = to;
      to.#calls.set(id, call);
    }
  }

  #take(id: string): PendingCall | undefined {
    const call = this.#calls.get(id);
    if (call === undefined) return undefined;
    this.#calls.delete(id);
    clearTimeout(call.timer);
    return call;
  }

  #fail(id: string, error: Error): void {
    const call = this.#take(id);
    if (call === undefined) return;
    call.reject(error);
    call.stream?.onError?.(error.message);
  }
}
