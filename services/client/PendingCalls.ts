/**
 * The calls of one connection that wait for their reply: matches replies by id, times out, rejects.
 *
 * 1. A call whose frame was transmitted may have run; when its connection is lost it rejects, and is
 *    never sent again.
 * 2. A call whose frame is still in the send buffer has not run: it outlives a lost connection, and
 *    goes out with the next.
 */
import type { StreamOptions } from "./clientTypes.ts";
import type { Reply } from "./serverFrame.ts";

/** Backstop for a reply that never comes; long enough for a slow model or provider behind a method. */
export const DEFAULT_CALL_TIMEOUT_MS = 30_000;

interface PendingCall {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly stream: StreamOptions | undefined;
  readonly timer: ReturnType<typeof setTimeout> | undefined;
  /** Where it waits now: its timer must fail it there. */
  book: PendingCalls;
  transmitted: boolean;
}

export interface CallRequest {
  readonly method: string;
  readonly stream: StreamOptions | undefined;
  /** Undefined or 0: wait for ever. */
  readonly timeoutMs: number | undefined;
}

export class PendingCalls {
  readonly #calls = new Map<string, PendingCall>();

  /**
   * Waits for the reply to a call with this id. `send` hands its frame over; it gives `transmitted`
   * when the frame left, `buffered` when it waits for a connection, `dropped` when it was thrown away.
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
      // Before it is sent: a socket may answer at once.
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

  /** False for a reply that nobody waits for. */
  settle(id: string, reply: Reply): boolean {
    const call = this.#calls.get(id);
    if (call === undefined) return false;
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

  /** Rule 1: the connection of what was transmitted is gone. */
  rejectTransmitted(reason: string): void {
    for (const [id, { transmitted }] of this.#calls)
      if (transmitted) this.#fail(id, new Error(reason));
  }

  rejectAll(reason: string): void {
    for (const id of this.#calls.keys()) this.#fail(id, new Error(reason));
  }

  /** Rule 2: another connection's buffer took what was buffered here; its replies will come there. */
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
