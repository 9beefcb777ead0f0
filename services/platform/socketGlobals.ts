/**
 * Gives a process the globals by which Durable Objects and modules accept sockets: `WebSocketPair`,
 * `WebSocketRequestResponsePair`, and a `Response` that takes `{ status: 101, webSocket }`. The
 * `Response` is replaced with the first pair: where no code makes one, nothing pays for it.
 */
import { ObjectSocket } from "../../core/socket/ObjectSocket.ts";
import { WebSocketRequestResponsePair } from "../../core/durableObject/ObjectSockets.ts";
import { upgradeOf } from "../../core/socket/socketResponse.ts";

/** `const { 0: client, 1: server } = new WebSocketPair()`: return one, accept the other. */
export class WebSocketPair {
  readonly 0: ObjectSocket;
  readonly 1: ObjectSocket;

  constructor() {
    installSocketGlobals();
    [this[0], this[1]] = ObjectSocket.pair();
  }
}

const INSTALLED = Symbol.for("agents.socketGlobals");

/** Once per process. */
export function installSocketGlobals(): void {
  if (INSTALLED in globalThis) return;
  Object.defineProperty(globalThis, INSTALLED, { value: true });
  const NativeResponse = globalThis.Response;
  const response: typeof Response = new Proxy(NativeResponse, {
    construct: (native, args: [unknown, unknown], target): Response =>
      upgradeOf(args[1]) ?? Reflect.construct(native, args, target === response ? native : target),
  });
  globalThis.Response = response;
  Object.defineProperty(response.prototype, "constructor", { value: response });
  joinWebSocket();
}

/** A global of one of the two names that is there already stays. */
export function offerWebSocketPair(): void {
  for (const value of [WebSocketPair, WebSocketRequestResponsePair])
    if (!(value.name in globalThis))
      Object.defineProperty(globalThis, value.name, { value, writable: true, configurable: true });
}

/**
 * The platform has one class of sockets. Its libraries take methods from `WebSocket.prototype`, and
 * ask for `instanceof WebSocket`.
 */
function joinWebSocket(): void {
  const { WebSocket } = globalThis as { readonly WebSocket?: { readonly prototype: object } };
  if (WebSocket === undefined) return;
  Object.setPrototypeOf(ObjectSocket.prototype, WebSocket.prototype);
  for (const name of ["accept", "serializeAttachment", "deserializeAttachment"] as const)
    Object.defineProperty(WebSocket.prototype, name, {
      value(this: ObjectSocket, value?: unknown): unknown {
        return (ObjectSocket.prototype[name] as (value: unknown) => unknown).call(this, value);
      },
      configurable: true,
    });
}
