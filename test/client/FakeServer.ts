/** A WebSocket server whose frames and closes the test decides: what a real one rarely does. */
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";
import { pollUntil } from "../kit/poll.ts";

export class FakePeer {
  readonly url: string;
  readonly received: string[] = [];
  readonly #socket: WebSocket;
  closed: { readonly code: number; readonly reason: string } | undefined;

  constructor(socket: WebSocket, request: IncomingMessage) {
    this.#socket = socket;
    this.url = request.url ?? "";
    socket.on("message", (data) => this.received.push(String(data)));
    socket.on("close", (code, reason) => (this.closed = { code, reason: String(reason) }));
    socket.on("error", () => undefined);
  }

  send(frame: unknown): void {
    this.#socket.send(
      typeof frame === "string" || frame instanceof Uint8Array ? frame : JSON.stringify(frame),
    );
  }
  identity(name = "default", more: object = {}): void {
    this.send({ type: "cf_agent_identity", name, agent: "room-agent", ...more });
  }
  state(state: unknown, more: object = {}): void {
    this.send({ type: "cf_agent_state", state, ...more });
  }
  /** The `count`-th call that it got, once there are as many. */
  call(count = 1): Promise<{ id: string; method: string; args: unknown[] }> {
    return this.#nth("rpc", count);
  }
  /** The same of what it was asked of durable streams. */
  stream(count = 1): Promise<{ id: string; key?: string; since?: string; cancel?: boolean }> {
    return this.#nth("cf_agent_stream", count);
  }
  #nth<Frame extends object>(type: string, count: number): Promise<Frame> {
    return pollUntil(
      `${type} ${count} arrives`,
      () => {
        const frames = this.received
          .map((text) => JSON.parse(text) as Frame & { readonly type: string })
          .filter((frame) => frame.type === type);
        const value = frames[count - 1];
        return value === undefined ? { done: false, saw: this.received } : { done: true, value };
      },
      { intervalMs: 2 },
    );
  }
  reply(id: string, more: object): void {
    this.send({ type: "rpc", id, ...more });
  }
  close(code: number, reason = ""): void {
    this.#socket.close(code, reason);
  }
  /** No close frame, as when a network is gone. */
  drop(): void {
    this.#socket.terminate();
  }
}

export class FakeServer {
  readonly peers: FakePeer[] = [];
  /** The HTTP status to refuse an upgrade of this URL with; undefined accepts it. */
  refuse: (url: string) => number | undefined = () => undefined;
  refused = 0;
  #server!: WebSocketServer;

  /** Starts anew, on another port. */
  async start(): Promise<void> {
    this.peers.length = 0;
    this.refused = 0;
    this.refuse = () => undefined;
    this.#server = new WebSocketServer({
      port: 0,
      host: "127.0.0.1",
      verifyClient: ({ req }, answer) => {
        const status = this.refuse(req.url ?? "");
        if (status !== undefined) this.refused += 1;
        answer(status === undefined, status);
      },
    });
    this.#server.on("connection", (socket, request) =>
      this.peers.push(new FakePeer(socket, request)),
    );
    await new Promise<void>((resolve) => this.#server.once("listening", resolve));
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The `count`-th connection, once there are as many. */
  peer(count = 1): Promise<FakePeer> {
    return pollUntil(`connection ${count}`, () => this.peers[count - 1], { intervalMs: 2 });
  }

  async stop(): Promise<void> {
    for (const peer of this.peers) peer.drop();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A server that starts anew for each test. `end` runs after the test, before the server stops. */
export function useFakeServer(end?: () => void): FakeServer {
  const server = new FakeServer();
  beforeEach(() => server.start());
  afterEach(async () => {
    end?.();
    await server.stop();
  });
  return server;
}

/** Waits as long as a frame between a client and this server may take. */
export const until = (what: string, check: () => boolean): Promise<unknown> =>
  pollUntil(what, check, { intervalMs: 2 });
