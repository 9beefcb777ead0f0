/** `deploy/compose.yaml` as processes: both hosts restart, one by one, and nobody notices. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import WebSocket from "ws";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { checkEpochs, checkExactlyOnce, historyOf, type History } from "../kit/checkers.ts";
import { agentId } from "../../schemas/Address.ts";
import { pollUntil } from "../kit/poll.ts";
import { withoutRepeats } from "../kit/withoutRepeats.ts";
import { Installation, SECRET } from "../kit/Installation.ts";
import { Senders } from "./Senders.ts";

const SHARDS = 16;
const CLIENTS = 20;
/** Stopping in order must not outlast an orchestrator's patience (10 s at Docker's). */
const STOP_MS_MAX = 8_000;
const WEBHOOKS = 2_000;

/** A browser that shows an agent's state. */
class Client {
  readonly counts: number[] = [];
  readonly socket: WebSocket;
  closed: number | undefined;

  constructor(url: string, agent: string) {
    this.socket = new WebSocket(`${url.replace("http", "ws")}/agents/ledger/${agent}`);
    this.socket.on("error", () => undefined);
    this.socket.on("close", (code) => (this.closed = code));
    this.socket.on("message", (data) => {
      const frame = JSON.parse(String(data)) as { type?: string; state?: { count: number } };
      if (frame.type === "cf_agent_state" && frame.state !== undefined)
        this.counts.push(frame.state.count);
    });
  }

  get last(): number {
    return this.counts.at(-1) ?? -1;
  }

  /** Closed before it saw a state. */
  get isRefused(): boolean {
    return this.closed !== undefined && this.last < 0;
  }
}

let installation: Installation;
let hosts: Record<"a" | "b", AgentsProcess>;
let clients: Client[];
let senders: Senders;
const sharesSeen: Array<ReadonlyMap<string, number>> = [];
const histories: History[] = [];
const figures: Record<string, unknown> = {};

/** Stops a host in order, has the other serve alone for a while, and starts it again. */
async function restart(name: "a" | "b"): Promise<void> {
  let startMs = performance.now();
  await hosts[name].stop();
  const stopMs = performance.now() - startMs;
  await installation.shared(1);
  await senders.more(50);
  startMs = performance.now();
  hosts[name] = await installation.startHost(name);
  await installation.shared(2);
  const joinMs = performance.now() - startMs;
  await senders.more(50);
  figures[`host ${name}: stop, start and share, ms`] = [stopMs, joinMs].map(Math.round);
}

/** As the published clients do. What the processes logged is shown: nobody should be refused. */
function comeBack({ closed }: Client, n: number): Client {
  const { gateway } = installation;
  const told = [hosts.a, hosts.b, gateway].map((process) => process.told());
  console.warn(`agent-${n}'s client was closed with ${closed} as it connected:`, ...told);
  return new Client(gateway.url, `agent-${n}`);
}

beforeAll(async () => {
  // The product's own lease: a restart in order must not wait for it.
  installation = await Installation.start({ shards: SHARDS, leaseTtlMs: 5_000 });
  const [a, b] = await Promise.all([installation.startHost("a"), installation.startHost("b")]);
  hosts = { a, b };
  await installation.shared(2);
  sharesSeen.push(await installation.shares());
  const { url } = installation.gateway;
  clients = Array.from({ length: CLIENTS }, (_, n) => new Client(url, `agent-${n}`));
  await pollUntil("all clients see a state", () => {
    clients = clients.map((client, n) => (client.isRefused ? comeBack(client, n) : client));
    const saw = clients.map(({ last, closed }) => ({ last, closed }));
    return saw.every(({ last }) => last === 0) || { done: false, saw };
  });
  senders = new Senders({
    url,
    secret: SECRET,
    deliveries: Array.from({ length: WEBHOOKS }, (_, n) => ({
      agent: `agent-${n % CLIENTS}`,
      id: `delivery-${n}`,
    })),
    concurrency: 8,
    paceMs: 80,
    heldBack: 200,
  });
  await senders.more(100);
  await restart("a");
  await restart("b");
  senders.release();
  await senders.finished;
  sharesSeen.push(await installation.shares());
  figures["slowest answer, ms"] = Math.round(senders.slowestMs);
  for (let n = 0; n < CLIENTS; n++)
    histories.push(await historyOf(installation.ports.journal, agentId("Ledger", `agent-${n}`)));
});

afterAll(async () => {
  for (const { socket } of clients ?? []) socket.terminate();
  await installation?.stop();
  console.info("rolling restart:", figures);
});

describe("when both hosts are restarted in turn under webhooks", () => {
  test("no webhook fails", () => {
    // 202: stored, where a busy machine took longer than the gateway waits.
    const { 200: done = 0, 202: stored = 0, ...failed } = Object.fromEntries(senders.byStatus);
    expect({ taken: done + stored, failed }).toEqual({ taken: WEBHOOKS, failed: {} });
  });

  test("every webhook is done exactly once, and epochs never decrease", () => {
    expect(checkExactlyOnce(senders.sent, histories)).toEqual([]);
    expect(histories.flatMap(checkEpochs)).toEqual([]);
  });

  test("no client loses its socket, and each ends with the latest state", async () => {
    const expected = WEBHOOKS / CLIENTS;
    await pollUntil("every client has the last state", () => {
      const saw = clients.map(({ last }) => last);
      return saw.every((last) => last === expected) || { done: false, saw };
    });
    expect(clients.map(({ closed }) => closed)).toEqual(clients.map(() => undefined));
  });

  test("no client sees states out of order, nor one twice except from an agent's next owner", () => {
    for (const { counts } of clients)
      expect(withoutRepeats(counts)).toEqual([...new Set(counts)].toSorted((x, y) => x - y));
  });

  test("clients' sockets still reach their agents", async () => {
    for (const { socket } of clients)
      socket.send(JSON.stringify({ type: "cf_agent_state", state: { count: 1_000_000 } }));
    await pollUntil("every agent has the state that its client sent", async () => {
      const saw = await Promise.all(
        clients.map(async (_, n) => {
          const response = await fetch(`${installation.gateway.url}/agents/ledger/agent-${n}`);
          return ((await response.json()) as { state: { count: number } }).state.count;
        }),
      );
      return saw.every((count) => count === 1_000_000) || { done: false, saw };
    });
  });

  test("a gateway without any host stays ready, and reports how many shards lack one", async () => {
    await Promise.all([hosts.a.kill(), hosts.b.kill()]);
    const { gateway } = installation;
    await pollUntil("it knows that they are gone", async () => {
      const saw = await gateway.metric("agents_shards_without_host");
      return saw === SHARDS || { done: false, saw };
    });
    const readiness = await gateway.admin("/readyz");
    expect(await readiness.text()).toContain(`hosts: ${SHARDS} of ${SHARDS} shards have none`);
    expect(readiness.status).toBe(200);
  });

  test("a gateway whose clients have just left as well stops at once", async () => {
    for (const { socket } of clients) socket.terminate();
    const startMs = performance.now();
    await installation.gateway.stop();
    expect(performance.now() - startMs).toBeLessThan(STOP_MS_MAX);
  });

  test("each host owns half of the shards once both are up", () => {
    for (const shares of sharesSeen) expect([...shares.values()]).toEqual([SHARDS / 2, SHARDS / 2]);
  });
});
