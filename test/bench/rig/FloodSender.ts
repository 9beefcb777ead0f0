/**
 * Sends requests at a fixed rate, whether or not they are answered, from a separate process, so
 * that other measurements don't wait for the sender. This file is also the code of that process.
 */
import { fork } from "node:child_process";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { BenchFailed } from "../Bench.ts";

const CONNECTIONS = 256;
/** Timers of Node have this resolution: a second's requests are sent in a thousand bursts. */
const BURST_MS = 1;

export interface FloodOptions {
  readonly port: number;
  readonly requestsPerSecond: number;
  /** The requests, in turn. */
  readonly requests: ReadonlyArray<string>;
}

/** Answers by status; `0`: not sent, because every connection waited for an answer. */
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

async function send({ port, requestsPerSecond, requests }: FloodOptions): Promise<void> {
  const answers: Record<string, number> = {};
  const count = (status: string): void => {
    answers[status] = (answers[status] ?? 0) + 1;
  };
  const free: Socket[] = [];
  const open = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => {
        free.push(socket);
        resolve();
      });
      socket.setNoDelay(true).setEncoding("latin1");
      // An answer of this size comes in one piece.
      socket.on("data", (text: unknown) => {
        count(String(text).slice(9, 12));
        free.push(socket);
      });
      socket.once("error", reject);
      socket.once("close", () => reject(new BenchFailed("a connection of the flood was closed")));
    });
  await Promise.all(Array.from({ length: CONNECTIONS }, open));
  const startMs = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - startMs) * requestsPerSecond) / 1000;
    for (; sent < due; sent += 1) {
      const socket = free.shift();
      if (socket === undefined) count("0");
      else socket.write(requests[sent % requests.length]!);
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
