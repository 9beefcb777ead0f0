/**
 * Sends requests, or frames over sockets, at a fixed rate or as fast as they are answered, from a
 * separate process, so that other measurements don't wait for the sender. This file is also the
 * code of that process.
 */
import { fork } from "node:child_process";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { BenchFailed } from "../Bench.ts";

/** Timers of Node have this resolution: a second's requests are sent in a thousand bursts. */
const BURST_MS = 1;
/** The frames that greet a new socket have arrived by then. */
const GREETED_MS = 500;

export interface FloodOptions {
  readonly port: number;
  readonly connections: number;
  /** Infinity: each connection sends again as soon as it is answered. */
  readonly requestsPerSecond: number;
  /** The requests, in turn. */
  readonly requests: ReadonlyArray<Uint8Array>;
  /** What each connection sends first: the handshake of a socket. */
  readonly handshake?: string;
}

/** Answers by status (`101`: frames); `0`: not sent, because every connection waited. */
export type FloodAnswers = Readonly<Record<string, number>>;

const SENDER = "flood-sender";

/** Begins to send. The result stops it. */
export async function startFlood(options: FloodOptions): Promise<() => Promise<FloodAnswers>> {
  const sender = fork(fileURLToPath(import.meta.url), [SENDER], { serialization: "advanced" });
  const message = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      sender.once("message", resolve);
      sender.once("exit", () => reject(new BenchFailed("the sender of the flood ended")));
    });
  sender.send(options);
  await message();
  return async () => {
    sender.send("stop");
    const answers = (await message()) as FloodAnswers;
    sender.removeAllListeners("exit");
    sender.kill();
    return answers;
  };
}

async function send(options: FloodOptions): Promise<void> {
  const { port, connections, requestsPerSecond, requests, handshake } = options;
  const answers: Record<string, number> = {};
  const count = (status: string): void => {
    answers[status] = (answers[status] ?? 0) + 1;
  };
  const isUnbounded = requestsPerSecond === Infinity;
  const free: Socket[] = [];
  let sent = 0;
  let goesOn = false;
  const next = (socket: Socket): void => {
    socket.write(requests[sent % requests.length]!);
    sent += 1;
  };
  const open = (): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => {
        if (handshake !== undefined) socket.write(handshake);
        resolve(socket);
      });
      socket.setNoDelay(true).setEncoding("latin1");
      // An answer of this size comes in one piece.
      socket.on("data", (text: unknown) => {
        if (!goesOn) return;
        count(handshake === undefined ? String(text).slice(9, 12) : "101");
        if (isUnbounded) next(socket);
        else free.push(socket);
      });
      socket.once("error", reject);
      socket.once("close", () => reject(new BenchFailed("a connection of the flood was closed")));
    });
  const sockets = await Promise.all(Array.from({ length: connections }, open));
  if (handshake !== undefined) await sleep(GREETED_MS);
  goesOn = true;
  const startMs = performance.now();
  if (isUnbounded) sockets.forEach(next);
  else free.push(...sockets);
  const timer = setInterval(() => {
    if (isUnbounded) return;
    const due = ((performance.now() - startMs) * requestsPerSecond) / 1000;
    while (sent < due) {
      const socket = free.shift();
      if (socket !== undefined) next(socket);
      else {
        count("0");
        sent += 1;
      }
    }
  }, BURST_MS);
  process.once("message", () => {
    clearInterval(timer);
    process.send!(answers);
  });
  process.send!("started");
}

if (process.argv[2] === SENDER)
  process.once("message", (options: FloodOptions) => void send(options));
