/** Clients send while hosts are stopped and killed: in order, none lost. Also `test/system`. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import WebSocket from "ws";
import type { LogEntry } from "../kit/AgentsProcess.ts";
import { ANSWER_TIMEOUT_MS } from "../../services/gateway/askHost.ts";
import { pollUntil } from "../kit/poll.ts";
import { Installation } from "../kit/Installation.ts";

const MODULE = fileURLToPath(new URL("./tapeModule.ts", import.meta.url));
const SHARDS = 8;
const CLIENTS = 8;
/** How far the client is ahead of its agent: more than a gateway sends, less than it holds. */
const AHEAD = 100;
/** What a gateway may have sent ahead to a host that is killed (`ClientMessages`). */
const AGAIN_MAX = 64;

/** Sends numbers, as fast as its agent's state follows them. */
class Sender {
  readonly agent: string;
  private readonly socket: WebSocket;
  private readonly url: string;
  sent = 0;
  heard = 0;
  /** From a message to the state that it made, at most. */
  slowestMs = 0;
  private readonly sentMs: number[] = [];
  ended = false;
  closed: number | undefined;

  constructor(url: string, agent: string) {
    this.agent = agent;
    this.url = `${url}/agents/tape/${agent}`;
    this.socket = new WebSocket(this.url.replace("http", "ws"));
    this.socket.on("error", () => undefined);
    this.socket.on("close", (code) => (this.closed = code));
    this.socket.on("open", () => this.more());
    this.socket.on("message", (data) => {
      const frame = JSON.parse(String(data)) as { type?: string; state?: { last: number } };
      if (frame.type !== "cf_agent_state" || frame.state === undefined) return;
      const { last } = frame.state;
      this.heard = Math.max(this.heard, last);
      const sentMs = this.sentMs[last] ?? Infinity;
      this.slowestMs = Math.max(this.slowestMs, performance.now() - sentMs);
      this.more();
    });
  }

  private more(): void {
    while (!this.ended && this.sent < this.heard + AHEAD) {
      this.socket.send(String(++this.sent));
      this.sentMs[this.sent] = performance.now();
    }
  }

  /** What its agent has processed, once that is everything. */
  async tape(): Promise<number[]> {
    return pollUntil(`${this.agent} has all ${this.sent}`, async () => {
      const response = await fetch(this.url);
      const tape = response.ok ? ((await response.json()) as number[]) : [];
      return tape.includes(this.sent)
        ? { done: true, value: tape }
        : { done: false, saw: [response.status, tape.at(-1), this.closed] };
    });
  }

  close(): void {
    this.socket.close();
  }
}

let installation: Installation;

beforeAll(async () => {
  // The product's own lease.
  installation = await Installation.start({ shards: SHARDS, leaseTtlMs: 5_000, module: MODULE });
});
afterAll(() => installation.stop());

test("messages keep their order, and none is lost, when hosts stop gracefully and are killed", async () => {
  const first = await installation.startHost("a");
  await installation.shared(1);
  const { url } = installation.gateway;
  const senders = Array.from({ length: CLIENTS }, (_, n) => new Sender(url, `tape-${n}`));
  const flows = (what: string) => {
    const before = senders.map(({ heard }) => heard);
    return pollUntil(
      `messages flow ${what}`,
      () =>
        senders.every(({ heard }, n) => heard > before[n]! + AHEAD) || {
          done: false,
          saw: senders.map(({ heard, sent, closed }) => [heard, sent, closed]),
        },
    );
  };
  await flows("at first");
  // Half of the agents move to a host that joins, then the rest.
  const second = await installation.startHost("b");
  await installation.shared(2);
  await flows("after one joined");
  await first.stop();
  await flows("after one stopped");
  const orderly = await Promise.all(senders.map((sender) => tapeSoFar(url, sender.agent)));
  // On a machine that stalls, a host loses shards without being killed, and answers come when the
  // gateway has given them up.
  const lost = [first, second]
    .flatMap(({ lines }) => lines)
    .filter(isLoss)
    .reduce((sum, { repeated: more = 1 }) => sum + Number(more), 0);
  const late = senders.filter(({ slowestMs }) => slowestMs > ANSWER_TIMEOUT_MS).length;
  for (const tape of orderly)
    if (lost + late === 0) expect(repeated(tape)).toEqual([]);
    else expect(repeated(tape).length).toBeLessThanOrEqual(AGAIN_MAX * (lost + late));
  await second.kill();
  await installation.startHost("c");
  await flows("after one was killed");
  for (const sender of senders) sender.ended = true;
  for (const sender of senders) {
    const tape = await sender.tape();
    const firsts = [...new Set(tape)];
    expect(firsts).toEqual(Array.from({ length: sender.sent }, (_, n) => n + 1));
    expect(repeated(tape).length).toBeLessThanOrEqual(AGAIN_MAX * (lost + late + 1));
    expect(sender.closed).toBe(undefined);
    sender.close();
  }
});

const isLoss = ({ message }: LogEntry): boolean => message === "shard lost";

async function tapeSoFar(url: string, agent: string): Promise<number[]> {
  return (await (await fetch(`${url}/agents/tape/${agent}`)).json()) as number[];
}

const repeated = (tape: ReadonlyArray<number>): number[] =>
  tape.filter((n, i) => i > 0 && n <= Math.max(...tape.slice(Math.max(0, i - AHEAD), i)));
