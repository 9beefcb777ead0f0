/**
 * Decides which end of a client's connection is final: a terminal close code, a close that
 * `shouldReconnectOnClose` declines, or the last of `maxRetries` attempts. `AgentClient` passes
 * what PartySocket reports, and ends itself at a final close.
 */
import type { PartySocketOptions } from "partysocket";
import { isTerminalCloseEvent, type CloseFacts } from "./AgentConnectionError.ts";

/** The WebSocket standard's code for an end without a close frame. */
const ABNORMAL_CLOSURE = 1006;

/** The part of a PartySocket that this uses. */
interface RetryingSocket {
  readonly shouldReconnect: boolean;
  readonly retryCount: number;
  /** Empty before the first socket. */
  readonly url: string;
}

export class FinalClose {
  #facts: CloseFacts | undefined;

  /** `options` is read at each close, since a React hook changes its callbacks. */
  constructor(
    private readonly socket: RetryingSocket,
    private readonly options: Pick<PartySocketOptions, "maxRetries" | "shouldReconnectOnClose">,
  ) {}

  /** PartySocket calls this at every close, before it schedules the next attempt. */
  mayReconnect(event: Parameters<typeof isTerminalCloseEvent>[0] & Event): boolean {
    // `close()` has already decided.
    if (!this.socket.shouldReconnect) return false;
    const isDeclined =
      isTerminalCloseEvent(event) ||
      this.options.shouldReconnectOnClose?.(event as never) === false;
    if (isDeclined || this.#isSpent()) this.#facts = factsOf(event as never);
    return !isDeclined;
  }

  /**
   * Whether a failed attempt was the last one and no close event reports it. PartySocket makes none
   * for an attempt without a socket, such as one whose query rejects, if there was none before.
   */
  isLastAttempt(message: string): boolean {
    const hadSocket = this.socket.url !== "";
    if (hadSocket || !this.socket.shouldReconnect || !this.#isSpent()) return false;
    this.#facts = unopened(message);
    return true;
  }

  /** Returns the final close once; undefined if the connection is opened again. */
  take(): CloseFacts | undefined {
    const facts = this.#facts;
    this.#facts = undefined;
    return facts;
  }

  #isSpent(): boolean {
    return this.socket.retryCount >= (this.options.maxRetries ?? Infinity);
  }
}

const unopened = (reason: string): CloseFacts => ({ code: ABNORMAL_CLOSURE, reason, wasClean: false }); // prettier-ignore

/**
 * Where the server sent no close frame, as for a refused connection, PartySocket makes an event
 * that says 1000, a normal end. It is recognised by its target: nothing has dispatched it yet.
 */
const factsOf = (event: CloseEvent): CloseFacts =>
  event.target === null ? unopened(event.reason) : event;
