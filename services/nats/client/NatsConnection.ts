/**
 * The connection to the broker that all NATS adapters of a process share. Dials (`login` has the
 * credentials), reconnects for ever, and notifies of both. `ReplyInbox` decides the fate of
 * requests in flight; `ShardConsumer` and `LeaseWatch` heal themselves after a reconnect.
 *
 * While the broker is unreachable `connected()` is false and nothing may be published. The client
 * would keep messages in memory without a bound and send some of them later.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { errors, type NatsConnection as Client } from "@nats-io/nats-core";
import { connect } from "@nats-io/transport-node";
import * as Context from "effect/Context";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { brokerUrls } from "../../node/brokerUrls.ts";
import { BrokerUnavailable } from "../../../core/bus/Bus.ts";
import { messageOf } from "../../../core/errors/thrown.ts";
import type { LogShape } from "../../../core/telemetry/Log.ts";
import { loginOptions, type NatsLogin } from "./login.ts";
import { whyUnreachable } from "./whyUnreachable.ts";
import { eachPass, gatherWrites, type Writes } from "./gatherWrites.ts";

/** Between two dials of one server. Short, because every turn waits for it. */
const RECONNECT_WAIT_MS = 200;
const RECONNECT_JITTER_MS = 100;
/** A silent server is abandoned after two pings: sooner than the operating system would notice. */
const PING_INTERVAL_MS = 5_000;
const PINGS_UNANSWERED_MAX = 2;
/** For one dial: more than a slow TLS handshake needs. */
const DIAL_TIMEOUT_MS = 5_000;
/** A broker that restarts is back sooner. */
const EXPLAIN_MS = 10_000;
/** How long the first connection is attempted. A composed start brings the broker up meanwhile. */
const CONNECT_TIMEOUT_MS_DEFAULT = 15_000;
/** A broker that starts beside this process listens sooner. */
const SLOW_DIAL_MS = 3_000;
/** 144 bits. */
const INBOX_TOKEN_BYTES = 18;
/** A healthy broker answers within milliseconds; closing does not wait for a sick one. */
const DRAIN_TIMEOUT_MS = 1_000;

/** What a login may not do. */
type Operation = "publish" | "subscription";

type Log = (level: "info" | "warn" | "error", message: string, fields?: object) => void;

interface NatsConnectionOptions extends NatsLogin {
  /**
   * One URL or several, also separated by commas: `nats://host:4222`, `tls://…`. Credentials are
   * `nats://user:password@…` or `nats://token@…`; the first ones found are used for all servers.
   */
  readonly servers: string | readonly string[];
  /** Appears in the server's monitoring. Default `agents`. */
  readonly name?: string;
  /** Start of the broker's reply subjects, so that each user can have its own. Default `_INBOX`. */
  readonly inboxPrefix?: string;
  /**
   * As `inboxPrefix`, for the replies of other processes, which may publish only there. Default
   * `_INBOX`.
   */
  readonly answerPrefix?: string;
  /** For the first connection. Default 15,000. */
  readonly connectTimeoutMs?: number;
}

export interface NatsConnectionShape {
  readonly client: Client;
  readonly writes: Writes;
  /** A new, unguessable subject for the broker's replies, to which no other user may publish. */
  readonly newInbox: () => string;
  /** A new, unguessable subject for replies of other processes, known to those that were asked. */
  readonly newAnswerInbox: () => string;
  readonly connected: () => boolean;
  /** A ping and its answer, behind what is to be sent. Rejects when there is no connection. */
  readonly roundTripMs: () => Promise<number>;
  /** Calls `f` with each change of `connected`. The returned function removes it. */
  readonly onChange: (f: (connected: boolean) => void) => () => void;
  /** Calls `f` with a subject that the login may not publish or subscribe to, when it is tried. */
  readonly onDenied: (f: (subject: string, operation: Operation) => void) => void;
  /** Resolves when connected, `signal` fires, or `timeoutMs` have passed: check `connected()`. */
  readonly untilConnected: (timeoutMs: number, signal?: AbortSignal) => Promise<void>;
  readonly log: Log;
  /** Calls `f` while the connection is open, and waits up to a second for it before closing. */
  readonly beforeClose: (f: () => Promise<void>) => void;
  /** Closes for good; `connected` is false from then on. Does not wait for a sick broker. */
  readonly close: () => Promise<void>;
}

export interface LoggedConnectionOptions extends NatsConnectionOptions {
  /** Receives lost and restored connections, and errors that the broker reports. */
  readonly log: LogShape;
}

/** nats-server's default, for a server that does not announce a limit. */
const PAYLOAD_BYTES_DEFAULT = 1024 * 1024;

/** Bytes of the largest message, payload and headers, that the connected server accepts. */
export const payloadBytesMax = (connection: Pick<NatsConnectionShape, "client">): number =>
  connection.client.info?.max_payload ?? PAYLOAD_BYTES_DEFAULT;

/** Rejects with `BrokerUnavailable` when no server answers within `connectTimeoutMs`. */
export async function openConnection(
  options: NatsConnectionOptions,
  log: Log,
): Promise<NatsConnectionShape> {
  const client = await dial(options, (why) =>
    log("warn", "the broker can't be reached yet", { why }),
  );
  const gathered = gatherWrites(client);
  if (gathered === undefined) log("info", "this client version does not support gathered writes");
  const state = new ConnectionState(client, options, log);
  const denials = new Set<(subject: string, operation: Operation) => void>();
  const drains: Array<() => Promise<void>> = [];
  const denied = (subject: string, operation: Operation): void => {
    for (const f of denials) f(subject, operation);
  };
  void watchStatus(client, { change: (up) => state.change(up), denied }, log);
  return {
    client,
    writes: gathered ?? eachPass,
    log,
    newInbox: () => unguessable(options.inboxPrefix),
    newAnswerInbox: () => unguessable(options.answerPrefix),
    connected: () => state.connected,
    roundTripMs: async () => {
      const startMs = performance.now();
      await client.flush();
      return performance.now() - startMs;
    },
    onChange: (f) => state.onChange(f),
    onDenied: (f) => void denials.add(f),
    untilConnected: (timeoutMs, signal) => state.untilUp(timeoutMs, signal),
    beforeClose: (f) => void drains.push(f),
    close: async () => {
      if (state.connected)
        await Promise.race([
          Promise.allSettled(drains.map((f) => f())),
          delay(DRAIN_TIMEOUT_MS, undefined, { ref: false }),
        ]);
      state.change(false);
      state.stopExplaining();
      // Gathered writes are sent first.
      await new Promise((resolve) => setImmediate(resolve));
      await client.close();
    },
  };
}

/** Whether the connection is up. While it is down, the log says why now and then. */
class ConnectionState {
  private up = true;
  private readonly listeners = new Set<(connected: boolean) => void>();
  private explaining: NodeJS.Timeout | undefined;

  constructor(
    private readonly client: Client,
    private readonly options: NatsConnectionOptions,
    private readonly log: Log,
  ) {}

  get connected(): boolean {
    return this.up && !this.client.isClosed();
  }

  change(up: boolean): void {
    if (this.up === up) return;
    this.up = up;
    this.stopExplaining();
    if (!up && !this.client.isClosed())
      this.explaining = setInterval(() => this.explain(), EXPLAIN_MS).unref();
    for (const f of this.listeners) f(up);
  }

  onChange(f: (connected: boolean) => void): () => void {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }

  untilUp(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.up || signal?.aborted === true) return resolve();
      const finish = (): void => {
        clearTimeout(timer);
        this.listeners.delete(finish);
        signal?.removeEventListener("abort", finish);
        resolve();
      };
      const timer = setTimeout(finish, timeoutMs);
      this.listeners.add(finish);
      signal?.addEventListener("abort", finish);
    });
  }

  stopExplaining(): void {
    clearInterval(this.explaining);
  }

  /** The client does not say why it can't reconnect. A dial of its own finds out. */
  private async explain(): Promise<void> {
    const found = await dial({ ...this.options, connectTimeoutMs: 0 }).catch(messageOf);
    if (typeof found !== "string") await found.close();
    else if (!this.up) this.log("warn", "the broker can't be reached", { why: found });
  }
}

/** The client's own ids count up from a random one: who knows one can compute the next. */
const unguessable = (prefix = "_INBOX"): string =>
  `${prefix}.${randomBytes(INBOX_TOKEN_BYTES).toString("base64url")}`;

/** `onSlow` is called once, if no server has answered for `SLOW_DIAL_MS`. */
async function dial(
  options: NatsConnectionOptions,
  onSlow?: (why: string) => void,
): Promise<Client> {
  const { servers, hosts, login, tls } = readServers(options.servers);
  const startMs = performance.now();
  const deadline = startMs + (options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS_DEFAULT);
  let tell = onSlow;
  for (;;) {
    let usesTls = tls;
    try {
      const more = loginOptions(options, { tls, hosts });
      usesTls = more.tls !== undefined;
      return await connect({
        servers,
        ...login,
        ...more,
        name: options.name ?? "agents",
        noEcho: true, // the bus's rule; each published state would come back otherwise
        noAsyncTraces: true, // a stack trace for each request would halve the throughput
        maxReconnectAttempts: -1,
        reconnectTimeWait: RECONNECT_WAIT_MS,
        reconnectJitter: RECONNECT_JITTER_MS,
        ignoreAuthErrorAbort: true, // a rotated credential must not end the process's connection
        pingInterval: PING_INTERVAL_MS,
        maxPingOut: PINGS_UNANSWERED_MAX,
        timeout: DIAL_TIMEOUT_MS,
      });
    } catch (error) {
      const nowMs = performance.now();
      const why = whyUnreachable(servers.join(", "), error, usesTls);
      if (nowMs >= deadline) throw new BrokerUnavailable({ message: why });
      if (nowMs - startMs >= SLOW_DIAL_MS) {
        tell?.(why);
        tell = undefined;
      }
      await delay(RECONNECT_WAIT_MS);
    }
  }
}

/** Converts URLs for the client, which expects `host:port`s and one login for all of them. */
function readServers(given: string | readonly string[]): {
  readonly servers: string[];
  /** Their names and addresses, without ports. */
  readonly hosts: string[];
  readonly login: { user?: string; pass?: string; token?: string };
  readonly tls: boolean;
} {
  const urls = brokerUrls(given);
  const first = urls.find((u) => u.username !== "");
  const user = decodeURIComponent(first?.username ?? "");
  const pass = decodeURIComponent(first?.password ?? "");
  return {
    servers: urls.map((u) => `${u.hostname}:${u.port === "" ? 4222 : u.port}`),
    hosts: urls.map((u) => u.hostname.replace(/^\[(.*)\]$/, "$1")),
    login: user === "" ? {} : pass === "" ? { token: user } : { user, pass },
    tls: urls.some((u) => u.protocol === "tls:"),
  };
}

async function watchStatus(
  client: Client,
  {
    change,
    denied,
  }: {
    readonly change: (up: boolean) => void;
    readonly denied: (subject: string, operation: Operation) => void;
  },
  log: Log,
): Promise<void> {
  for await (const status of client.status()) {
    if (status.type === "disconnect") {
      log("warn", "broker connection lost; reconnecting", { server: status.server });
      change(false);
    } else if (status.type === "reconnect") {
      log("info", "broker connection restored", { server: status.server });
      change(true);
    } else if (status.type === "error") {
      const { error } = status;
      log("warn", "broker reported an error", { error: String(error) });
      if (error instanceof errors.PermissionViolationError) denied(error.subject, error.operation);
    } else if (status.type === "close") change(false);
  }
}

const portLog =
  (log: LogShape): Log =>
  (level, message, fields = {}) =>
    log[level](message, { ...fields });

export class NatsConnection extends Context.Service<NatsConnection, NatsConnectionShape>()(
  "agents/services/nats/NatsConnection",
) {}

/** Connects while the layer is built; closes with its scope. Fails with `BrokerUnavailable`. */
export const layer = (
  options: LoggedConnectionOptions,
): Layer.Layer<NatsConnection, BrokerUnavailable> =>
  Layer.effect(
    NatsConnection,
    Effect.acquireRelease(
      Effect.tryPromise({
        try: () => openConnection(options, portLog(options.log)),
        catch: (error) =>
          error instanceof BrokerUnavailable
            ? error
            : new BrokerUnavailable({ message: String(error) }),
      }),
      (connection) => Effect.promise(() => connection.close()),
    ),
  );
