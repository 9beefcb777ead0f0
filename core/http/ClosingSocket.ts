/**
 * A socket's handlers, and a function that is called before they learn of its close. A class, since
 * closures inside a decision's `open` would keep the decision in memory while the socket is open.
 * Made by what takes part in a socket's life: the count of an address's sockets, the log.
 */
import type { SocketHandlers } from "./HttpServer.ts";

export class ClosingSocket implements SocketHandlers {
  constructor(
    private readonly handlers: SocketHandlers,
    private readonly closed: (code: number, reason: string) => void,
  ) {}

  onMessage(data: string | Uint8Array): void {
    this.handlers.onMessage(data);
  }

  onPing(bytes: number): void {
    this.handlers.onPing?.(bytes);
  }

  onClose(code: number, reason: string, wasClean: boolean): void {
    this.closed(code, reason);
    this.handlers.onClose(code, reason, wasClean);
  }
}
