/**
 * An installation of real processes whose agents hold or end their process (`holdingModule`), and
 * neighbours that get webhooks meanwhile.
 */
import { createHmac, randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { Installation, SECRET } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./holdingModule.ts", import.meta.url));
/** Some deaths and take-overs, on a busy machine. */
export const TIMEOUT_MS = 240_000;
/** One for each shard. */
const NEIGHBOURS = 8;
/** From one webhook of a neighbour to its next. */
const PACE_MS = 250;
const HEAP = "--max-old-space-size=200";

/** For the tests of a file. Each has a host of its own: what fails leaves nothing to the next. */
export function useHoldRig() {
  let installation: Installation;
  let host: AgentsProcess;
  let hosts = 0;

  beforeAll(async () => {
    installation = await Installation.start({ shards: 8, leaseTtlMs: 2_000, module: MODULE });
  }, TIMEOUT_MS);
  beforeEach(async () => {
    // Little memory, so that it is soon full.
    const args = ["--workers", "2", "--memory", "256"];
    host = await installation.startHost(`host-${++hosts}`, { args, env: { NODE_OPTIONS: HEAP } });
    await installation.shared(2, TIMEOUT_MS);
  }, TIMEOUT_MS);
  afterEach(() => host.stop(), TIMEOUT_MS);
  afterAll(() => installation?.stop(), TIMEOUT_MS);

  /** As a provider: again, with the same id, until it is taken. Resolves to the answer's status. */
  function send(route: string, agent: string, more = {}): Promise<number> {
    const body = JSON.stringify({ agent, ...more });
    const signature = createHmac("sha256", SECRET).update(body).digest("hex");
    const headers = {
      "content-type": "application/json",
      "x-github-event": "push",
      "x-github-delivery": randomUUID(),
      "x-hub-signature-256": `sha256=${signature}`,
    };
    const url = `${installation.gateway.url}/webhooks/${route}`;
    return pollUntil(
      `a webhook of ${agent} is taken`,
      async () => {
        const response = await fetch(url, { method: "POST", headers, body });
        await response.arrayBuffer();
        const { status } = response;
        // A turn that failed is answered so, and runs again by itself.
        return status === 503 ? { done: false, saw: status } : { done: true, value: status };
      },
      { timeoutMs: TIMEOUT_MS, intervalMs: PACE_MS },
    );
  }

  const countOf = async (name: string, kind = "neighbour"): Promise<number> => {
    const response = await fetch(`${installation.gateway.url}/agents/${kind}/${name}`);
    return response.ok ? ((await response.json()) as { count: number }).count : -1;
  };

  const endedWorkers = () => host.lines.filter(({ message }) => message === "worker ended");
  const linesOf = (name: string, message: string) =>
    host.lines.filter((line) => line["name"] === name && line.message.includes(message));

  function expectEnded(ends: number): void {
    const bad = host.lines.filter(({ level }) => level === "warn" || level === "error");
    expect(endedWorkers(), bad.map((line) => JSON.stringify(line)).join("\n")).toHaveLength(ends);
  }

  /** One worker has ended, once; everything after it has ended only the processes of the agent. */
  function expectAlone(name: string): void {
    expectEnded(1);
    expect(linesOf(name, "it now runs in its own process")).toHaveLength(1);
    // Two attempts: the first beside others, the second alone.
    expect(linesOf(name, "an isolated agent has ended its process")).toHaveLength(1);
  }

  /** How many processes the agent has ended. */
  const endsOf = (name: string): number =>
    linesOf(name, "for longer than cpuSeconds: the process is ended").length;

  /** Why each dead input of the agent is. */
  async function deadOf(name: string): Promise<ReadonlyArray<string>> {
    const reasons: string[] = [];
    for await (const { id, data } of installation.ports.deadLetters.list())
      if (id.name === name) reasons.push(decodeDeadLetter(data).head.reason);
    return reasons;
  }

  /**
   * Sends neighbours webhooks until an input that holds its process is dead. Each has to apply
   * once.
   */
  async function whileNeighboursWork(how: string, route = "holder"): Promise<void> {
    const sent = new Map<string, number>();
    const before = new Map<string, number>();
    const names = Array.from({ length: NEIGHBOURS }, (_, n) => `neighbour-${n}`);
    for (const name of names)
      await pollUntil(
        `${name} answers`,
        async () => {
          const count = await countOf(name);
          before.set(name, count);
          return count >= 0;
        },
        { timeoutMs: TIMEOUT_MS },
      );
    let done = false;
    const working = names.map(async (name) => {
      while (!done) {
        expect([200, 202]).toContain(await send("neighbour", name));
        sent.set(name, (sent.get(name) ?? 0) + 1);
        await new Promise((resolve) => setTimeout(resolve, PACE_MS));
      }
    });
    expect([202, 500]).toContain(await send(route, how, { how }));
    await pollUntil(
      "its input is dead",
      async () => (await deadOf(how)).length > 0 || { done: false, saw: host.told() },
      { timeoutMs: TIMEOUT_MS, intervalMs: 500 },
    ).finally(() => (done = true));
    await Promise.all(working);
    for (const name of names) {
      const wanted = before.get(name)! + sent.get(name)!;
      await pollUntil(
        `${name} has its ${wanted} webhooks`,
        async () => {
          const saw = await countOf(name);
          return saw === wanted || { done: false, saw };
        },
        { timeoutMs: TIMEOUT_MS },
      );
    }
  }

  return {
    /** Lives as long as the file. */
    get installation() {
      return installation;
    },
    get host() {
      return host;
    },
    send, countOf, linesOf, expectEnded, expectAlone, endsOf, deadOf, whileNeighboursWork,
  }; // prettier-ignore
}
