/**
 * The listeners of a socket that its Durable Object keeps in memory (`socket.accept()`). Unlike
 * those of an `EventTarget`, what a listener throws fails the turn of the event, and a promise that
 * it returns is part of that turn.
 */
import { SparseMap } from "../collections/sparse.ts";

export type SocketEventType = "message" | "close" | "error";

/** What a listener receives; each type of event has some of the members. */
export interface SocketEvent {
  readonly type: SocketEventType;
  /** `message`: text, or bytes. */
  readonly data?: string | ArrayBuffer;
  /** `close`: as in `webSocketClose`. */
  readonly code?: number;
  readonly reason?: string;
  readonly wasClean?: boolean;
  /** `error`: what broke the socket. */
  readonly error?: unknown;
  readonly message?: string;
}

export type SocketListener =
  ((event: SocketEvent) => unknown) | { handleEvent(event: SocketEvent): unknown };

export class SocketListeners {
  readonly #byType = new SparseMap<
    SocketEventType,
    Map<SocketListener, { readonly once: boolean }>
  >();

  add(type: SocketEventType, listener: SocketListener, once: boolean): void {
    const listeners = this.#byType.get(type) ?? new Map<SocketListener, { once: boolean }>();
    this.#byType.set(type, listeners);
    if (!listeners.has(listener)) listeners.set(listener, { once });
  }

  remove(type: SocketEventType, listener: SocketListener): void {
    this.#byType.get(type)?.delete(listener);
  }

  /** Calls those of the event's type, in their order. Rejects with what the first one threw. */
  async tell(event: SocketEvent): Promise<void> {
    const listeners = this.#byType.get(event.type);
    const told = Array.from(listeners ?? [], async ([listener, { once }]) => {
      if (once) listeners!.delete(listener);
      if (typeof listener === "function") await listener(event);
      else await listener.handleEvent(event);
    });
    await Promise.all(told);
  }
}
