/** Events that use storage while another's transaction is open wait with what depends on it. */
import { DurableObject } from "cloudflare:workers";
import { expect, test } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import { Agent } from "agents";
import { body, unsigned, webhook } from "agents/webhooks";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

class Ledger extends DurableObject<{ Ledger: ObjectNamespace<Ledger> }> {
  /** A webhook: waits a second, and then writes. */
  async fetch(request: Request): Promise<Response> {
    const { id } = (await request.json()) as { id: string };
    await sleep(1000);
    this.ctx.storage.kv.put(`hook ${id}`, 1);
    return new Response("OK");
  }
  async write({ ms = 0, fails = false, asks = 0 }): Promise<void> {
    await this.ctx.storage.transaction(async (txn) => {
      await txn.put("written", 1);
      await sleep(ms);
      for (let i = 0; i < asks; i++) {
        await this.env.Ledger.getByName("other").keys();
        await sleep(500);
      }
      if (fails) throw new Error("undone");
    });
  }
  async later(how: "put" | "read"): Promise<unknown> {
    await sleep(1000);
    const { kv } = this.ctx.storage;
    if (how === "put") kv.put("later", 1);
    return kv.list().map(([key]) => key);
  }
  async setAlarmFirst(): Promise<void> {
    void this.ctx.storage.setAlarm(Date.now() + 60_000);
    await this.ctx.storage.transaction(async () => this.env.Ledger.getByName("other").keys());
  }
  async keys(): Promise<string[]> {
    return [...(await this.ctx.storage.list()).keys()];
  }
  async alarm(): Promise<void> {
    await this.ctx.storage.put("alarm", 1);
  }
}

class Caller extends Agent<{ Ledger: ObjectNamespace<Ledger> }> {
  async call(method: string, ...args: unknown[]): Promise<unknown> {
    const ledger = this.env.Ledger.getByName("o") as unknown as Record<
      string,
      (...given: unknown[]) => Promise<unknown>
    >;
    return ledger[method]!(...args).then((value) => value ?? "done", String);
  }
}

const start = () =>
  testAgents({
    agents: [Caller, Ledger as never],
    webhooks: [
      webhook("/w", {
        agent: Ledger as never,
        verify: unsigned(),
        entity: body("entity", { trust: true }),
      }),
    ],
  });

/** In steps, between which the calls of other objects and the answers arrive. */
async function pass(t: TestAgents, seconds: number): Promise<void> {
  for (let i = 0; i < seconds * 4; i++) await t.advance("250 ms");
}

let callers = 0;
interface Heard {
  value?: unknown;
  atMs?: number;
}
/** Calls the object; `heard` receives the answer, and when it came. */
function call(t: TestAgents, method: keyof Ledger, ...args: unknown[]) {
  const heard: Heard = {};
  const answer = t.agent(Caller, `c${callers++}`).call(method, ...args);
  void answer.then(
    (value) => Object.assign(heard, { value, atMs: Number(t.now) }),
    () => undefined,
  );
  return { heard, answer };
}
function hook(t: TestAgents, id: string) {
  const heard: Heard = {};
  void t.webhook("/w", { entity: "o", id }).then(
    ({ status }) => Object.assign(heard, { value: status, atMs: Number(t.now) }),
    () => undefined,
  );
  return heard;
}

test("an event is answered after the commit of the transaction that it wrote in", async () => {
  await using t = await start();
  const heard = hook(t, "1");
  const later = call(t, "later", "put");
  await pass(t, 0.5);
  const write = call(t, "write", { ms: 2000 });
  await pass(t, 1.5);
  expect([heard, later.heard, write.heard]).toEqual([{}, {}, {}]);
  await pass(t, 1);
  expect(heard.value).toBe(200);
  expect(later.heard.value).toEqual(["hook 1", "later", "written"]);
  expect(heard.atMs).toBeGreaterThanOrEqual(write.heard.atMs! - 100);
  await t.crash();
  await t.revive();
  expect(await call(t, "keys").answer).toEqual(["hook 1", "later", "written"]);
});

test("a webhook that wrote in a transaction runs again when that is rolled back", async () => {
  await using t = await start();
  const heard = hook(t, "1");
  const later = call(t, "later", "put");
  await pass(t, 0.5);
  const write = call(t, "write", { ms: 2000, fails: true });
  await pass(t, 10);
  await t.advance("10 minutes");
  expect(heard.value).toBe(200);
  expect(write.heard.value).toContain("rolled back");
  expect(later.heard.value).toContain("rolled back");
  expect(await call(t, "keys").answer).toEqual(["hook 1"]);
  expect(await t.deadLetters()).toEqual([]);
});

test("a webhook that wrote in a transaction runs again when the host ends before it", async () => {
  await using t = await start();
  const heard = hook(t, "1");
  await pass(t, 0.5);
  void call(t, "write", { ms: 2000 });
  await pass(t, 1.5);
  expect(heard).toEqual({});
  await t.crash();
  await t.revive();
  await t.advance("10 minutes");
  expect(await call(t, "keys").answer).toEqual(["hook 1"]);
  expect(await t.deadLetters()).toEqual([]);
});

test("what an event read in a transaction is not answered when that is rolled back", async () => {
  await using t = await start();
  const read = call(t, "later", "read");
  await pass(t, 0.5);
  call(t, "write", { ms: 2000, fails: true });
  await pass(t, 10);
  expect(read.heard.value).toContain("rolled back");
});

test("a transaction that others wrote in calls other objects, and ends", async () => {
  await using t = await start();
  const later = call(t, "later", "put");
  await pass(t, 0.5);
  const write = call(t, "write", { asks: 5 });
  await pass(t, 10);
  expect(write.heard.value).toBe("done");
  expect(later.heard.value).toEqual(["later", "written"]);
});

test("an alarm that was set before a transaction that writes nothing rings", async () => {
  await using t = await start();
  const set = call(t, "setAlarmFirst");
  await pass(t, 1);
  expect(set.heard.value).toBe("done");
  await t.crash();
  await t.revive();
  await t.advance("5 minutes");
  expect(await call(t, "keys").answer).toEqual(["alarm"]);
});
