/** Many short turns at once, of many agents or one: the host's other work runs between them. */
import { beforeAll, expect, test } from "vitest";
import { Agent } from "agents";
import { path, unsigned, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import { useSystems, type System } from "../system/kit.ts";

const BURST = 60;
/** So long on any machine. Together they take over a second. */
const TURN_MS = 20;
/** Eight turns begin before the first has run. The watch below may miss a pass. */
const TURNS_A_PASS = 2 * 8;

/** Turns that ran in this pass, and in all. */
let ran = 0;
let total = 0;

class Busy extends Agent {
  static override options = { http: "open" } as const;

  override onRequest = () => this.compute();
  onWebhook = () => this.compute();

  private async compute(): Promise<Response> {
    await Promise.resolve();
    const endMs = performance.now() + TURN_MS;
    while (performance.now() < endMs);
    ran++;
    total++;
    return new Response();
  }
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  const to = { agent: Busy, verify: unsigned(), entity: path("name", { trust: true }) };
  const webhooks = [
    webhook("/webhooks/direct/:name", to),
    webhook("/webhooks/stored/:name", { ...to, answer: "stored" }),
  ];
  system = await systems.start({ agents: { Busy }, webhooks }, { shards: 1 });
});

test.each([
  ["requests to many agents", (n: number) => ["GET", `/agents/busy/${n}`]],
  ["requests to one agent", () => ["GET", "/agents/busy/one"]],
  ["webhooks to many agents", (n: number) => ["POST", `/webhooks/direct/${n}`]],
  ["webhooks to one agent", () => ["POST", "/webhooks/direct/one"]],
  ["stored webhooks to many agents", (n: number) => ["POST", `/webhooks/stored/${n}`]],
])("a burst of %s is spread over passes of the event loop", async (_what, requestOf) => {
  const ask = async (n: number): Promise<void> => {
    const [method, target] = requestOf(n);
    expect((await fetch(system.url + target, { method: method! })).ok).toBe(true);
  };
  const askAll = async (): Promise<void> => {
    const before = total;
    await Promise.all(Array.from({ length: BURST }, (_, n) => ask(n)));
    await pollUntil("all have run", () => total >= before + BURST || { done: false, saw: total });
  };
  await askAll();
  let most = (ran = 0);
  const watch = setInterval(() => {
    most = Math.max(most, ran);
    ran = 0;
  }, 0);
  await askAll();
  clearInterval(watch);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(TURNS_A_PASS);
});

test("a neighbour of an agent with many long requests waits for some of them, not for all", async () => {
  const ask = (name: string): Promise<unknown> => fetch(`${system.url}/agents/busy/${name}`);
  await Promise.all([ask("slow"), ask("neighbour")]);
  let answered = 0;
  const slow = Array.from({ length: BURST }, () => ask("slow").then(() => answered++));
  await ask("neighbour");
  // Some have run before its request has arrived.
  expect(answered).toBeLessThan(BURST / 2);
  await Promise.all(slow);
});
