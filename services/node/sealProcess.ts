/**
 * Seals a process whose agents are copies of an installation's, because they must not act on the
 * world a second time: for `agents dev --from`, and while `agents rerun` and `--on-fork` run code.
 *
 * 1. A connection to anywhere but the process's own broker fails before anything is sent, whatever
 *    opens it: `fetch`, node:http, a database's driver. So do datagrams.
 * 2. `sealProcess` seals for as long as the process lives, and before a module's code is loaded.
 *    `sealedWhile` seals for one run of agents' code.
 * 3. Webhooks that agents send are logged and count as sent, and so is mail (`unsentMail`).
 * 4. Code of a run that ends the process (`process.exit()`) gets an error in its place: the command
 *    has to say what came out, and its exit code is its own.
 *
 * Programs, worker threads and native code that an agent starts are not held back.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { Socket as DatagramSocket } from "node:dgram";
import { Socket } from "node:net";
import type { OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { nodeOutgoing } from "./NodeOutgoing.ts";
import { brokerUrls } from "./brokerUrls.ts";

/** Rule 1. */
class NothingLeaves extends Error {
  override readonly name = "NothingLeaves";
  constructor(to: string, why: string) {
    super(`${to} was not called: ${why}`);
  }
}

interface Destination {
  readonly host?: string | undefined;
  readonly port?: number | string | undefined;
  /** A socket file of this machine. */
  readonly path?: string | undefined;
}

/** `broker`: its URL. Nothing at all is connected to before it resolves. */
export function sealProcess(broker: Promise<string>): void {
  let allowed: ReadonlySet<string> = new Set();
  broker.then(
    (url) => (allowed = hostsOf(url)),
    () => undefined, // whoever awaits the broker reports it
  );
  const why = 'with "agents dev --from", nothing is sent from this process';
  holdBack((to) => allowed.has(to), why);
  const plain = globalThis.fetch;
  globalThis.fetch = async (...args) => {
    try {
      return await plain(...args);
    } catch (error) {
      // Node's own error says "fetch failed".
      throw error instanceof Error && error.cause instanceof NothingLeaves ? error.cause : error;
    }
  };
}

/** Seals the process until `f` has settled. `broker`: the URL that stays reachable. */
export async function sealedWhile<A>(broker: string, f: () => Promise<A>): Promise<A> {
  const allowed = hostsOf(broker);
  const open = holdBack((to) => allowed.has(to), "a run in memory sends nothing");
  const letEnd = keepAlive();
  try {
    return await inRun.run(true, f);
  } finally {
    letEnd();
    open();
  }
}

/** Set in the code of a run, and in what it starts. */
const inRun = new AsyncLocalStorage<true>();

/** Rule 4. */
class EndsProcess extends Error {
  override readonly name = "EndsProcess";
  constructor(how: string) {
    super(`${how} was called, which ends the process of a host`);
  }
}

/** Rule 4, until the returned function is called. */
function keepAlive(): () => void {
  const { exit, abort } = process;
  process.exit = (code) => {
    if (inRun.getStore() === true) throw new EndsProcess("process.exit()");
    return exit.call(process, code);
  };
  process.abort = () => {
    if (inRun.getStore() === true) throw new EndsProcess("process.abort()");
    return abort.call(process);
  };
  return () => Object.assign(process, { exit, abort });
}

const hostsOf = (urls: string): ReadonlySet<string> =>
  new Set(brokerUrls(urls).map(({ host }) => host));

/** Rule 1. Returns what ends it. */
function holdBack(isAllowed: (to: string) => boolean, why: string): () => void {
  const { connect } = Socket.prototype;
  const { send } = DatagramSocket.prototype;
  Socket.prototype.connect = function (this: Socket, ...args: unknown[]): Socket {
    const to = nameOf(destinationOf(args));
    if (isAllowed(to)) return (connect as (...given: unknown[]) => Socket).apply(this, args);
    // As a connection fails: what is written waits for it, and the error comes later.
    setImmediate(() => this.destroy(new NothingLeaves(to, why)));
    return Object.assign(this, { connecting: true });
  } as typeof connect;
  DatagramSocket.prototype.send = function (this: DatagramSocket, ...args: unknown[]): void {
    const error = new NothingLeaves("a datagram's receiver", why);
    const callback = args.at(-1);
    if (typeof callback === "function") process.nextTick(callback, error);
    else process.nextTick(() => this.emit("error", error));
  } as typeof send;
  return () => {
    Socket.prototype.connect = connect;
    DatagramSocket.prototype.send = send;
  };
}

const nameOf = ({ host = "localhost", port, path }: Destination): string =>
  path ?? `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** The arguments of `Socket.connect`, in each of their forms. */
function destinationOf([first, second]: ReadonlyArray<unknown>): Destination {
  // Node has put them into an array before.
  if (Array.isArray(first)) return destinationOf(first as unknown[]);
  if (typeof first === "object" && first !== null) return first;
  if (typeof first === "string" && Number.isNaN(Number(first))) return { path: first };
  return { port: first as number | string, host: typeof second === "string" ? second : undefined };
}

/** Takes webhooks for sent, and logs them. */
export const sealedOutgoing = (log: Pick<LogShape, "info">): OutgoingShape => ({
  ...nodeOutgoing,
  post: async ({ url }) => {
    log.info("a webhook was not sent, because of --from", { url });
    return { _tag: "Answered", status: 200 };
  },
});
