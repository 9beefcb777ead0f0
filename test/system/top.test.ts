/** `agents top`: what classes and agents cost, as their hosts tell it. */
import { beforeAll, expect, test } from "vitest";
import { Agent, getAgentByName } from "agents";
import { top, type Top } from "../../services/cli/commands/top.ts";
import type { Terminal } from "../../services/cli/terminal/Terminal.ts";
import { useSystems, type System } from "./kit.ts";

class Busy extends Agent {
  work(): void {
    this.setState(this.name);
  }
}
class Spender extends Agent {
  /** Returns the error's name, where the budget is used up. */
  async ask(tokens: number): Promise<string> {
    try {
      const spend = await this.spend("tokens", 10, { limit: 20 });
      spend.settle(tokens);
      return "asked";
    } catch (error) {
      return (error as Error).name;
    }
  }
}
class Idle extends Agent {
  look(): void {}
}

const SHARDS = 4;
const systems = useSystems();
let system: System;
beforeAll(async () => {
  system = await systems.start({ agents: { Busy, Idle, Spender } }, { shards: SHARDS });
});

/** Runs it, with `meanwhile` between its two readings. */
async function run(
  className: string | undefined,
  meanwhile: () => Promise<void>,
  json = true,
  calls: object = system.gateway.calls,
) {
  const printed: string[] = [];
  const terminal = { out: (line: string) => printed.push(line), interactive: false };
  const ports = { calls, shards: SHARDS } as Parameters<typeof top>[0];
  let nowMs = 0;
  await top(ports, terminal as unknown as Terminal, {
    className,
    json,
    seconds: 2,
    time: {
      monotonicMs: () => nowMs,
      after: (ms, f) => {
        void meanwhile().then(() => {
          nowMs += ms;
          f();
        });
        return () => undefined;
      },
    },
  });
  return printed;
}

const work = async (name: string, times: number): Promise<void> => {
  const agent = await getAgentByName<Busy>(system.gateway.env["Busy"] as never, name);
  for (let n = 0; n < times; n++) await agent.work();
};

test("top shows what each class and agent did between the two readings, the busiest first", async () => {
  await work("before", 5);
  await (await getAgentByName<Idle>(system.gateway.env["Idle"] as never, "i")).look();
  const [line] = await run(undefined, async () => {
    await work("a", 1);
    await work("b", 10);
  });
  const found = JSON.parse(line!) as Top;
  expect(found).toMatchObject({ seconds: 2, hosts: 1, shardsAway: 0 });
  const classOf = (name: string) => found.classes.find((row) => row.class === name)!;
  // Two of the turns are the starts of the agents.
  expect(classOf("Busy").turns).toBe(13 / 2);
  expect(classOf("Busy").commits).toBeGreaterThan(0);
  expect(classOf("Busy").bytes).toBeGreaterThan(classOf("Busy").commits);
  expect(classOf("Idle")).toMatchObject({ turns: 0, commits: 0 });
  const agentOf = (name: string) => found.agents.find((row) => row.name === name);
  expect(agentOf("a")).toMatchObject({ class: "Busy", turns: 1, waiting: 0 });
  expect(agentOf("b")).toMatchObject({ class: "Busy", turns: 5.5 });
  expect(agentOf("before")).toBeUndefined();
});

test("top shows a class once, with what it cost on all hosts", async () => {
  const started = { Busy: 0 };
  const cost = (turns: number) => ({ class: "Busy", turns, turnMs: 10 * turns, commits: turns, bytes: 100, stalls: 1, stallMs: 200 }); // prettier-ignore
  const call = async ({ name }: { readonly name: string }) => {
    const host = Number(name) % 2 === 0 ? "a" : "b";
    const turns = started.Busy * (host === "a" ? 4 : 10);
    const value = { host, classes: [cost(turns)], agents: [], budgets: [] };
    return { reply: { kind: "result", value } };
  };
  const printed = await run("busy", async () => void (started.Busy = 1), true, { call });
  expect((JSON.parse(printed[0]!) as Top).classes).toEqual([
    { class: "Busy", turns: 7, turnMs: 70, commits: 7, bytes: 0, stalls: 2, stalledSeconds: 0.4 },
  ]);
});

test("top sums what the agents of a class spent of their budgets, and what was refused", async () => {
  for (const name of ["a", "b"]) {
    const agent = await getAgentByName<Spender>(system.gateway.env["Spender"] as never, name);
    expect([await agent.ask(15), await agent.ask(1)]).toEqual(["asked", "BudgetExceeded"]);
  }
  const [line] = await run("spender", async () => undefined);
  expect((JSON.parse(line!) as Top).budgets).toEqual([
    { class: "Spender", budget: "tokens", spent: 30, refused: 2 },
  ]);
  const printed = await run(undefined, async () => undefined, false);
  expect(printed.at(-1)).toMatch(/^ +30 +2 {2}Spender tokens$/);
  expect((JSON.parse((await run("busy", async () => undefined))[0]!) as Top).budgets).toEqual([]);
});

test("top shows one class as a table by default", async () => {
  const printed = await run("idle", () => work("c", 3), false);
  expect(printed[0]).toMatch(/^1 host, over 2 s$/);
  expect(printed.filter((line) => line.includes("Busy"))).toEqual([]);
  expect(printed.filter((line) => line.endsWith("  Idle"))).toHaveLength(1);
});

test("the same numbers are exposed as metrics labelled by class", async () => {
  const text = await system.host.metrics.render();
  expect(text).toMatch(/^agents_turns_total\{class="Busy"\} [1-9]/m);
  expect(text).toMatch(/^agents_turn_seconds_total\{class="Idle"\} /m);
  expect(text).toMatch(/^agents_commit_bytes_total\{class="Busy"\} [1-9]/m);
  // No series for each agent.
  expect(text.match(/^agents_turns_total/gm)).toHaveLength(3);
});
