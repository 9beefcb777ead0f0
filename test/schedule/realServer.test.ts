/** Jobs on a real nats-server: how late they are, and queues whose hosts are killed with -9. */
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Agent, getAgentByName } from "agents";
import type { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { useSystems } from "../system/kit.ts";

const systems = useSystems();

class Punctual extends Agent<unknown, { readonly late: number[] }> {
  static override options = { hibernateAfterSeconds: 0.05 };
  override initialState = { late: [] as number[] };
  ring(dueMs: number): void {
    this.setState({ late: [...this.state.late, Date.now() - dueMs] });
  }
  async plan(inMs: number): Promise<void> {
    const dueMs = Date.now() + inMs;
    await this.schedule("ring", { time: new Date(dueMs), payload: dueMs });
  }
  /** Holds the agent in memory until all have rung. */
  async planAndStay(count: number, everyMs: number): Promise<void> {
    const release = await this.keepAlive();
    for (let n = 1; n <= count; n++) await this.plan(n * everyMs);
    void pollUntil("all rang", () => this.state.late.length >= count).finally(release);
  }
  late(): number[] {
    return this.state.late;
  }
}

const COUNT = 30;
const rank = (late: number[], share: number): number =>
  late.toSorted((a, b) => a - b)[Math.floor((late.length - 1) * share)]!;
const tell = (where: string, late: number[]): void =>
  void process.stdout.write(
    `schedules ${where}: late by ${rank(late, 0.5)} ms (p50), ${rank(late, 0.9)} ms (p90), ${rank(late, 1)} ms (most)\n`,
  );

describe("a schedule", () => {
  test("of an agent in memory is never early", async () => {
    const { gateway } = await systems.start({ agents: { Punctual } });
    const binding = gateway.env["Punctual"] as AgentNamespace<Punctual>;
    const agent = await getAgentByName(binding, "here");
    await agent.planAndStay(COUNT, 40);
    const late = await pollUntil("all have rung", async () => {
      const seen = await agent.late();
      return seen.length >= COUNT ? { done: true, value: seen } : { done: false, saw: seen };
    });
    expect(late).toHaveLength(COUNT);
    expect(Math.min(...late)).toBeGreaterThanOrEqual(0);
    tell("in memory", late);
  });

  test("of an agent that hibernates is never early", async () => {
    const { gateway, host } = await systems.start({ agents: { Punctual } });
    const binding = gateway.env["Punctual"] as AgentNamespace<Punctual>;
    const agents = await Promise.all(
      Array.from({ length: COUNT }, (_, n) => getAgentByName(binding, `away-${n}`)),
    );
    await Promise.all(agents.map((agent, n) => agent.plan(4_000 + n * 31)));
    await pollUntil(
      "all hibernate",
      () => host.host.agentsActive === 0 || { done: false, saw: host.host.agentsActive },
    );
    const late = await pollUntil(
      "all have rung",
      async () => {
        // Looking would wake them: not before they are due.
        const seen = (await Promise.all(agents.map((agent) => agent.late()))).flat();
        return seen.length >= COUNT ? { done: true, value: seen } : { done: false, saw: seen };
      },
      { intervalMs: 6_000 },
    );
    expect(Math.min(...late)).toBeGreaterThanOrEqual(0);
    tell("from hibernation", late);
  });
});

describe("queues whose hosts are killed", () => {
  const AGENTS = 20;
  const ITEMS = 200;
  const BATCH = 50;

  test("run every item once and in order", async () => {
    const installation = await Installation.start({
      shards: 8,
      leaseTtlMs: 1_500,
      module: fileURLToPath(new URL("./alarmModule.ts", import.meta.url)),
    });
    try {
      const hosts = [await installation.startHost("a"), await installation.startHost("b")];
      const ask = async (agent: number, init?: RequestInit): Promise<{ done: number[] }> => {
        const url = `${installation.gateway.url}/agents/lane/lane-${agent}`;
        const response = await fetch(url, { ...init, signal: AbortSignal.timeout(4_000) });
        if (response.status !== 200) throw new Error(`${response.status}`);
        return (await response.json()) as { done: number[] };
      };
      const agents = Array.from({ length: AGENTS }, (_, n) => n);
      let pushed = 0;
      const pushing = Promise.all(
        agents.map(async (agent) => {
          for (let from = 0; from < ITEMS; from += BATCH) {
            const body = JSON.stringify({ from, to: from + BATCH });
            await pollUntil(`batch ${from} of ${agent} is pushed`, () =>
              ask(agent, { method: "POST", body }),
            );
            pushed += BATCH;
          }
        }),
      );
      for (const [n, name] of [
        [0, "a"],
        [1, "b"],
        [0, "a"],
      ] as const) {
        const before = pushed;
        await pollUntil("some more are pushed", () => pushed > before || pushed === AGENTS * ITEMS);
        await hosts[n]!.kill();
        hosts[n] = await installation.startHost(name);
      }
      await pushing;
      for (const agent of agents) {
        const { done } = await pollUntil(
          `lane ${agent} is through`,
          async () => {
            const seen = await ask(agent);
            return seen.done.length >= ITEMS
              ? { done: true, value: seen }
              : { done: false, saw: seen.done.length };
          },
          { timeoutMs: 60_000, intervalMs: 200 },
        );
        expect(done).toEqual(Array.from({ length: ITEMS }, (_, n) => n));
      }
      await pollUntil("no trigger is left in the inbox", async () => {
        const depth = await installation.ports.inbox.depth();
        return depth === 0 || { done: false, saw: depth };
      });
    } finally {
      await installation.stop();
    }
  });
});
