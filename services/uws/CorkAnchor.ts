/**
 * A response inside whose `cork` the library is called for other responses. It belongs to a request
 * that the process sends to itself over loopback and never answers. UwsServer.ts opens and closes
 * it. It works around two traits of uWebSockets.js:
 *
 * 1. The library wants an asynchronous upgrade inside a `cork` callback, but
 *    `response.cork(() => response.upgrade(…))` closes some of the sockets that it has just
 *    upgraded: it then reads the response's close flag from memory that belongs to the socket (fixed
 *    by pull request 1929 of uNetworking/uWebSockets; no build on npm has it yet). Inside the cork
 *    of another response, it does not read that flag.
 * 2. A write outside every `cork` callback prints a warning to stderr, and a write inside the cork
 *    of its own response does not report backpressure. Inside the cork of another, it does.
 */
import { connect, type Socket } from "node:net";
import type { HttpResponse, us_listen_socket } from "uWebSockets.js";
import type { Uws } from "./loadUws.ts";

const LOOPBACK = "127.0.0.1";
/** Loopback answers at once. Without the anchor, calls run as the library would have them. */
const OPEN_TIMEOUT_MS = 1_000;

export class CorkAnchor {
  readonly #uws: Uws;
  #listenSocket: us_listen_socket | undefined;
  #client: Socket | undefined;
  #response: HttpResponse | undefined;

  constructor(uws: Uws) {
    this.#uws = uws;
  }

  /** Resolves when the anchor is ready, or after `OPEN_TIMEOUT_MS`. Never rejects. */
  open(): Promise<void> {
    return new Promise((resolve) => {
      const late = setTimeout(resolve, OPEN_TIMEOUT_MS);
      const app = this.#uws.App().get("/*", (response) => {
        if (this.#response !== undefined) return void response.close();
        this.#response = response;
        response.onAborted(() => (this.#response = undefined));
        // No other connection is needed.
        this.#stopListening();
        clearTimeout(late);
        resolve();
      });
      app.listen(LOOPBACK, 0, (socket) => {
        if (socket === false) return;
        this.#listenSocket = socket;
        this.#client = connect(this.#uws.us_socket_local_port(socket), LOOPBACK);
        this.#client.on("error", () => undefined).unref();
        this.#client.write(`GET / HTTP/1.1\r\nhost: ${LOOPBACK}\r\n\r\n`);
      });
    });
  }

  /** Runs `f` at once, inside the anchor's cork if there is one. */
  readonly run = (f: () => void): void => {
    if (this.#response === undefined) f();
    else this.#response.cork(f);
  };

  close(): void {
    this.#stopListening();
    this.#client?.destroy();
  }

  #stopListening(): void {
    if (this.#listenSocket === undefined) return;
    this.#uws.us_listen_socket_close(this.#listenSocket);
    this.#listenSocket = undefined;
  }
}
