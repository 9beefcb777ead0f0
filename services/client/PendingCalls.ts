/**
 * The calls of one connection that wait for a reply. Matches replies by id, and rejects calls on
 * timeout and loss.
 *
 * 1. A call whose frame was transmitted may have run. It rejects when its connection is lost, and
 *    is never sent again.
 * 2. A call whose frame is still in the send buffer has not run. It survives a lost connection, and
 *    the next one sends it. If it rejects before that, its frame is removed from the buffer.
 * 3. Reading a durable stream continues over any number of connections, each of which starts at its
 *    place.
 * 4. A call with a key is one call, however often it is sent. It is sent again on each connection,
 *    and every `AGAIN_MS` until it is answered, since its host may have died.
 * 5. A connection outlives the host of its agent. Every `AGAIN_MS`, the agent is asked which of the
 *    calls without a key it will not answer. They reject.
 */
import { CALL_LOST, RPC_LOST } from "../../schemas/rpcLost.ts";
import { callPage } from "./callPage.ts";
import type { FollowOptions } from "./clientTypes.ts";
import { DurableRead } from "./DurableRead.ts";
import type { Reply, StreamPart, StreamPlace } from "./serverFrame.ts";

/** Milliseconds to wait for a reply: enough for a method that calls a slow model or provider. */
export const DEFAULT_CALL_TIMEOUT_MS = 30_000;
/** Rules 4 and 5. The default time to live of a host's lease; then another host has the agent. */
const AGAIN_MS = 5_000;

/** A longer timer fires at once in browsers and Node. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Callbacks of a call, or of reading a stream. */
type Callbacks = Omit<FollowOptions, "onChunk"> & {
  readonly onChunk?: ((chunk: unknown, ...place: string[]) => void) | undefined;
};

interface PendingCall {
  readonly method: string;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly stream: Callbacks | undefined;
  readonly timer: ReturnType<typeof setTimeout> | undefined;
  /** It reads a durable stream instead of calling a method. Its chunks come with their places. */
  readonly follows: boolean;
  /** Rule 3. A call has it from its first chunk on. */
  read: DurableRead | undefined;
  /** The instance that has the call now, in which its timer must fail it. */
  book: PendingCalls;
  transmitted: boolean;
  /** Returns its frame. Reading a stream has none. */
  readonly frame: (() => string) | undefined;
  /** Rule 4. */
  readonly hasKey: boolean;
  /** How often this connection may answer it: once, and once more each time it is sent again. */
  answers: number;
  readonly unlisten: () => void;
}

export interface CallRequest {
  readonly method: string;
  readonly stream: Callbacks | undefined;
  /** Set if it reads a durable stream instead of calling a method. */
  readonly read?: DurableRead;
  readonly signal?: AbortSignal | undefined;
  /** The frame that cancels the call when the signal aborts. Its reply may still arrive. */
  readonly cancel?: string;
  /** A call with a key is sent again. */
  readonly key?: string | undefined;
  /** Returns the frame that `send` passed to the socket. */
  readonly frame?: () => string;
  /** No limit if undefined, 0 or more than `TIMER_MS_MAX`. */
  readonly timeoutMs: number | undefined;
}

/** A request to read a durable stream from a place, or to stop reading it. */
export type StreamRequest =
  | { readonly id: string; readonly key: string; readonly since?: string }
  | { readonly id: string; readonly cancel: true };

const requestOf = (id: string, { key, place }: DurableRead): StreamRequest => ({
  id,
  key,
  ...(place === undefined ? {} : { since: place }),
});

/** Rules 3 and 4. */
const outlives = ({ read, hasKey }: PendingCall): boolean => read !== undefined || hasKey;

/** The socket of a client. */
interface CallSocket {
  readonly readyState: number;
  readonly OPEN: number;
  /** Buffers what can't be sent yet. */
  send(frame: string): unknown;
  /** Empties the buffer and returns what it held. */
  drainQueuedMessages(): ReadonlyArray<unknown>;
}

const toError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown));

export class PendingCalls {
  readonly #socket: CallSocket;
  readonly #calls = new Map<string, PendingCall>();
  /** Calls that nobody waits for, but whose replies may still arrive: this many of each. */
  readonly #cancelled = new Map<string, number>();
  /** Rule 5: runs while there are calls. */
  #asking: ReturnType<typeof setInterval> | undefined;
  /** Rule 5: ids of the questions that are not answered. */
  readonly #questions = new Set<string>();
  #lastQuestion = 0;
  /** The server of this connection has no `RPC_LOST`. */
  #answersNoQuestion = false;

  constructor(socket: CallSocket) {
    this.#socket = socket;
  }

  /**
   * Sends a call and waits for its reply. `send` passes the frame to the socket and returns
   * `transmitted` if it was sent, `buffered` if it waits for a connection, and `dropped` if it was
   * discarded. Rejects with the reply's error, on timeout, and for a dropped frame.
   */
  start(
    id: string,
    { method, stream, timeoutMs, read, signal, cancel, key, frame }: CallRequest,
    send: () => "transmitted" | "buffered" | "dropped",
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timeout = (): void => {
        const text = `RPC call to ${method} timed out after ${timeoutMs}ms`;
        call.book.#fail(id, new Error(text));
      };
      const abort = (): void => {
        const isWithdrawn = call.book.#fail(id, toError(signal!.reason));
        if (cancel === undefined || isWithdrawn) return;
        call.book.#cancelled.set(id, call.answers);
        call.book.#socket.send(cancel);
      };
      const isLimited = timeoutMs !== undefined && timeoutMs > 0 && timeoutMs <= TIMER_MS_MAX;
      const timer = isLimited ? setTimeout(timeout, timeoutMs) : undefined;
      const hasKey = key !== undefined;
      const repeat = hasKey && setInterval(() => call.book.#askAgain(call), AGAIN_MS);
      const call: PendingCall = {
        method,
        resolve,
        reject,
        stream,
        timer,
        follows: read !== undefined,
        read,
        book: this,
        transmitted: false,
        frame,
        hasKey,
        answers: 1,
        unlisten: () => {
          signal?.removeEventListener("abort", abort);
          if (repeat !== false) clearInterval(repeat);
        },
      };
      signal?.addEventListener("abort", abort, { once: true });
      // Registered before sending, since a socket may answer at once.
      this.#add(id, call);
      try {
        const sent = send();
        if (sent === "dropped")
          this.#fail(id, new Error(`RPC call to ${method} was dropped: the send buffer is full`));
        else call.transmitted = sent === "transmitted";
      } catch (error) {
        this.#fail(id, toError(error));
      }
    });
  }

  /**
   * Applies a reply. Returns false if no call has or had this id, and a request to continue from a
   * place if chunks of a durable stream were lost before it.
   */
  settle(id: string, reply: Reply, place?: StreamPlace): boolean | StreamRequest {
    if (this.#questions.delete(id)) {
      this.#learnLost(reply);
      return true;
    }
    const call = this.#calls.get(id);
    if (call === undefined) return this.#isLate(id, reply);
    if (place !== undefined) {
      call.read ??= new DurableRead(place.key);
      const isChunk = reply._tag === "Chunk";
      const chunks = isChunk ? [reply.result] : [];
      const end = isChunk ? undefined : reply;
      return this.take(id, { seq: place.seq, chunks, restart: false, end, resume: false }) ?? true;
    }
    if (reply._tag === "Failure") {
      call.answers--;
      this.#fail(id, new Error(reply.error));
    } else if (reply._tag === "Chunk") callPage(() => call.stream?.onChunk?.(reply.result));
    else {
      call.answers--;
      this.#take(id);
      call.resolve(reply.result);
      callPage(() => call.stream?.onDone?.(reply.result));
    }
    return true;
  }

  /** Applies a part of a durable stream. Returns a request to send to the server, if needed. */
  take(id: string, part: StreamPart): StreamRequest | undefined {
    const call = this.#calls.get(id);
    // Nobody waits for it anymore.
    if (call?.read === undefined) return { id, cancel: true };
    if (part.resume) return requestOf(id, call.read);
    const taken = call.read.take(part);
    if (taken._tag === "Gap") return requestOf(id, call.read);
    if (taken.restarted) callPage(() => call.stream?.onRestart?.());
    taken.chunks.forEach((chunk, n) => {
      const place = call.follows ? [taken.places[n]!] : [];
      callPage(() => call.stream?.onChunk?.(chunk, ...place));
    });
    if (part.end !== undefined) this.settle(id, part.end);
    return undefined;
  }

  /** Rule 3: the requests with which a new connection continues. */
  reads(): ReadonlyArray<StreamRequest> {
    return [...this.#calls].flatMap(([id, { read }]) =>
      read === undefined ? [] : [requestOf(id, read)],
    );
  }

  /** Whether the reply is of a call that nobody waits for. Its last one is the end of its id. */
  #isLate(id: string, reply: Reply): boolean {
    const answers = this.#cancelled.get(id);
    if (answers === undefined || reply._tag === "Chunk") return answers !== undefined;
    if (answers > 1) this.#cancelled.set(id, answers - 1);
    else this.#cancelled.delete(id);
    return true;
  }

  /** Rule 4. Called before `markTransmitted`, so that buffered calls are not sent twice. */
  askAgain(): void {
    for (const call of this.#calls.values()) this.#askAgain(call);
  }

  /** Called when the send buffer has been flushed. */
  markTransmitted(): void {
    for (const call of this.#calls.values()) call.transmitted = true;
  }

  /** Rule 1. Called when the connection was lost. */
  rejectTransmitted(reason: string): void {
    this.#cancelled.clear();
    this.#questions.clear();
    this.#answersNoQuestion = false;
    for (const [id, call] of this.#calls) {
      if (!call.transmitted) continue;
      call.answers = 0;
      if (!outlives(call)) this.#fail(id, new Error(reason));
    }
  }

  /** Rejects the call with this frame, which is too large for the server and has not run. */
  refuse(refused: string): void {
    for (const [id, { transmitted, frame, method }] of this.#calls)
      if (transmitted && frame?.() === refused)
        this.#fail(id, new Error(`Connection closed: the call of ${method} is larger than the server accepts`)); // prettier-ignore
  }

  rejectAll(reason: string): void {
    this.#withdraw(this.#calls.values());
    for (const id of this.#calls.keys()) this.#fail(id, new Error(reason));
  }

  /** Rules 2 to 4: moves calls that survive to the next client, whose buffer has their frames. */
  moveBuffered(to: PendingCalls): void {
    for (const [id, call] of this.#calls) {
      if (call.transmitted && !outlives(call)) continue;
      this.#remove(id);
      call.book = to;
      to.#add(id, call);
    }
  }

  #askAgain(call: PendingCall): void {
    if (!call.transmitted || !call.hasKey) return;
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    call.answers++;
    this.#socket.send(call.frame!());
  }

  /** Rule 5. */
  #askForLost(): void {
    if (this.#answersNoQuestion || this.#socket.readyState !== this.#socket.OPEN) return;
    const asked = [...this.#calls].filter(([, call]) => call.transmitted && !outlives(call));
    if (asked.length === 0) return;
    const id = `lost ${++this.#lastQuestion}`;
    this.#questions.add(id);
    const args = asked.map(([callId]) => callId);
    this.#socket.send(JSON.stringify({ type: "rpc", id, method: RPC_LOST, args }));
  }

  /** Rule 5. */
  #learnLost(answer: Reply): void {
    const lost = answer._tag === "Result" ? answer.result : undefined;
    if (!Array.isArray(lost)) {
      this.#answersNoQuestion = true;
      return;
    }
    for (const id of lost as ReadonlyArray<string>) {
      // A host that only stood still may answer after all.
      const call = this.#calls.get(id);
      this.#fail(id, new Error(CALL_LOST));
      if (call !== undefined) this.#cancelled.set(id, call.answers);
    }
  }

  #add(id: string, call: PendingCall): void {
    this.#calls.set(id, call);
    this.#asking ??= setInterval(() => this.#askForLost(), AGAIN_MS);
  }

  #remove(id: string): void {
    this.#calls.delete(id);
    if (this.#calls.size > 0) return;
    clearInterval(this.#asking);
    this.#asking = undefined;
  }

  #take(id: string): PendingCall | undefined {
    const call = this.#calls.get(id);
    if (call === undefined) return undefined;
    this.#remove(id);
    clearTimeout(call.timer);
    call.unlisten();
    if (call.hasKey && call.transmitted && call.answers > 0) this.#cancelled.set(id, call.answers);
    return call;
  }

  /** Returns true if the call can't run any more, since its frame was never sent. */
  #fail(id: string, error: Error): boolean {
    const call = this.#take(id);
    if (call === undefined) return false;
    const isWithdrawn = this.#withdraw([call]);
    call.reject(error);
    callPage(() => call.stream?.onError?.(error.message));
    return isWithdrawn;
  }

  /** Rule 2. Returns whether one of the frames was in the buffer. */
  #withdraw(calls: Iterable<PendingCall>): boolean {
    const frames = new Set<unknown>();
    for (const { transmitted, frame } of calls) if (!transmitted) frames.add(frame?.());
    if (frames.size === 0) return false;
    const buffered = this.#socket.drainQueuedMessages();
    const others = buffered.filter((message) => !frames.has(message));
    for (const message of others) this.#socket.send(message as string);
    return others.length < buffered.length;
  }
}
