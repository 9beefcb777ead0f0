/**
 * Requests over connections that stay open, one under way on each: for loads that wrk has no script
 * for. Answers are read as far as their status and length; any but 200 is no measurement.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { BenchFailed } from "../Bench.ts";

const HEAD_END = "\r\n\r\n";

export interface HttpRun {
  readonly answered: number;
  readonly perSecond: number;
  readonly tookMs: ReadonlyArray<number>;
}

export async function runHttp(options: {
  readonly port: number;
  readonly connections: number;
  /** Undefined: no more. */
  readonly next: () => string | undefined;
  /** No new requests after this time. Absent: until `next` returns none. */
  readonly seconds?: number;
}): Promise<HttpRun> {
  const { port, connections, next, seconds = Infinity } = options;
  const tookMs: number[] = [];
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  const lane = async (): Promise<void> => {
    const socket = connect(port, "127.0.0.1");
    socket.setNoDelay(true);
    socket.setEncoding("latin1");
    await once(socket, "connect");
    try {
      while (performance.now() < endMs) {
        const request = next();
        if (request === undefined) return;
        const sentMs = performance.now();
        socket.write(request);
        await answerOf(socket);
        tookMs.push(performance.now() - sentMs);
      }
    } finally {
      socket.destroy();
    }
  };
  await Promise.all(Array.from({ length: connections }, lane));
  const answered = tookMs.length;
  return { answered, perSecond: (answered * 1000) / (performance.now() - startMs), tookMs };
}

/** Resolves when a whole answer is here. */
function answerOf(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = "";
    const end = (error?: Error): void => {
      socket.off("data", onData);
      socket.off("close", onClose);
      if (error === undefined) resolve();
      else reject(error);
    };
    const onClose = (): void => end(new BenchFailed("a connection was closed before its answer"));
    const onData = (chunk: string): void => {
      text += chunk;
      const at = text.indexOf(HEAD_END);
      if (at < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(text.slice(0, at))?.[1] ?? NaN);
      if (!text.startsWith("HTTP/1.1 200 "))
        return end(new BenchFailed(`an answer was not 200: ${text}`));
      if (Number.isNaN(length)) return end(new BenchFailed(`an answer has no length: ${text}`));
      if (text.length >= at + HEAD_END.length + length) end();
    };
    socket.on("data", onData);
    socket.on("close", onClose);
  });
}
