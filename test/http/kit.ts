/** The kit of the HTTP server suite: two adapters, a server, and a client of raw bytes. */
import { Effect, Exit, Scope } from "effect";
import { connect, type Socket } from "node:net";
import { expect } from "vitest";
import type {
  Exchange,
  HandlerFailure,
  HttpHandlers,
  HttpResponse,
  HttpServerOptions,
  HttpServerShape,
} from "../../core/http/HttpServer.ts";
import { makeNodeServer } from "../../services/nodeHttp/NodeServer.ts";
import { makeUwsServer } from "../../services/uws/UwsServer.ts";
import { loadUws, UwsUnavailable } from "../../services/uws/loadUws.ts";
import { pollUntil } from "../kit/poll.ts";

export interface Adapter {
  readonly name: "uws" | "node";
  readonly make: () => HttpServerShape;
}

const loaded = loadUws();

export const adapters: ReadonlyArray<Adapter> = [
  // Where the native binary can't load, the default adapter can't be tested; the suite says so.
  ...(loaded instanceof UwsUnavailable
    ? []
    : [{ name: "uws" as const, make: () => makeUwsServer(loaded) }]),
  { name: "node", make: makeNodeServer },
];

export const nativeReason = loaded instanceof UwsUnavailable ? loaded.message : undefined;

export const ok = (body: string | Uint8Array = "OK"): HttpResponse => ({
  status: 200,
  headers: [],
  body,
});

/** Answers with what arrived, as JSON; the body in base64. */
export const echo = (exchange: Exchange): void => {
  const { method, target, headers, remoteAddress, secure } = exchange.request;
  const body = Buffer.from(exchange.body).toString("base64");
  const seen = { method, target, headers: { ...headers }, remoteAddress, secure, body };
  exchange.respond(ok(JSON.stringify(seen)));
};

/** Longer than `until` waits: on a busy machine, too, no connection closes for being late. */
const NEVER_LATE_MS = 300_000;

const OPTIONS: HttpServerOptions = {
  hostname: "127.0.0.1",
  port: 0,
  headerTimeoutMs: NEVER_LATE_MS,
  bodyTimeoutMs: NEVER_LATE_MS,
  headerBytesMax: 16 * 1024,
  connectionsMax: 1_000,
  socketBufferBytesMax: 1024 * 1024,
  unsentBytesMax: 16 * 1024 * 1024,
  bodiesBytesMax: 256 * 1024 * 1024,
  messageBytesMax: 64 * 1024,
};

const HANDLERS: HttpHandlers = {
  limitBody: () => 64 * 1024 * 1024,
  onRequest: echo,
  onUpgrade: () => Promise.resolve({ _tag: "Refuse", response: ok() }),
  onFailure: () => undefined,
};

export interface TestServer extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  /** What was reported of the handlers. */
  readonly failures: ReadonlyArray<HandlerFailure>;
  readonly stop: () => Promise<void>;
}

export const startServer = async (
  adapter: Adapter,
  handlers: Partial<HttpHandlers> = {},
  options: Partial<HttpServerOptions> = {},
): Promise<TestServer> => {
  const scope = Scope.makeUnsafe();
  const failures: HandlerFailure[] = [];
  const onFailure = (failure: HandlerFailure) => void failures.push(failure);
  const given = { ...HANDLERS, onFailure, ...handlers };
  const listen = adapter.make().listen({ ...OPTIONS, ...options }, given);
  const { port } = await Effect.runPromise(Scope.provide(listen, scope));
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= Effect.runPromise(Scope.close(scope, Exit.void)));
  const url = `http://127.0.0.1:${port}`;
  return { port, url, failures, stop, [Symbol.asyncDispose]: stop };
};

/** `pollUntil`, more often: what these tests wait for takes milliseconds. */
export const until = <T>(
  what: string,
  ready: () => T | undefined | false,
  { seen = () => undefined }: { readonly seen?: () => unknown } = {},
): Promise<T> =>
  pollUntil<T>(
    what,
    () => {
      const value = ready();
      return value === undefined || value === false
        ? { done: false, saw: seen() }
        : { done: true, value };
    },
    { intervalMs: 5 },
  );

export interface RawResponse {
  readonly statusLine: string;
  /** As sent, lower-case name and value. */
  readonly headers: ReadonlyArray<readonly [string, string]>;
  readonly body: string;
}

/** A connection that sends exactly the bytes it is given. Text is Latin-1 both ways. */
export class RawClient implements Disposable {
  text = "";
  closed = false;
  readonly socket: Socket;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => (this.text += chunk));
    // A reset is one way of being closed; what had arrived before it is kept.
    socket.on("error", () => (this.closed = true));
    socket.on("close", () => (this.closed = true));
  }

  static async connect(port: number): Promise<RawClient> {
    const socket = connect(port, "127.0.0.1");
    const client = new RawClient(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", () => resolve());
      socket.once("error", reject);
    });
    return client;
  }

  send(text: string): this {
    this.socket.write(text, "latin1");
    return this;
  }

  /** The next whole response (by content-length), taken off what was received. */
  response(options: { readonly bodiless?: boolean } = {}): Promise<RawResponse> {
    const take = () => this.#take(options.bodiless === true);
    return until("a whole response", take, { seen: () => this.text.slice(0, 500) });
  }

  untilClosed(): Promise<boolean> {
    const seen = () => this.text.slice(0, 500);
    return until("the connection to close", () => this.closed, { seen });
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }

  #take(bodiless: boolean): RawResponse | undefined {
    const end = this.text.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const [statusLine = "", ...lines] = this.text.slice(0, end).split("\r\n");
    const headers = lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    });
    const declared = Number(headers.find(([name]) => name === "content-length")?.[1] ?? 0);
    const length = bodiless ? 0 : declared;
    if (this.text.length < end + 4 + length) return undefined;
    const body = this.text.slice(end + 4, end + 4 + length);
    this.text = this.text.slice(end + 4 + length);
    return { statusLine, headers, body };
  }
}

export const valuesOf = (response: RawResponse, name: string): ReadonlyArray<string> =>
  response.headers.filter(([each]) => each === name).map(([, value]) => value);

interface Echoed {
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, ReadonlyArray<string>>>;
  readonly remoteAddress: string;
  readonly secure: boolean;
  readonly body: string;
}

/** What `echo` saw. */
export const echoed = (response: RawResponse): Echoed => {
  expect(response.statusLine).toBe("HTTP/1.1 200 OK");
  return JSON.parse(Buffer.from(response.body, "latin1").toString("utf8")) as Echoed;
};
