/** Blocks and asynchronous transactions of an object exclude each other, and earlier calls. */
import { DurableObject } from "cloudflare:workers";
import { expect, test } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import { Agent } from "agents";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** Resolves for all events that await it at once. */
let gate: { readonly opened: Promise<void>; readonly open: () => void };

class Tally extends DurableObject {
  /** Adds one to `n`, between awaits. */
  private async add(): Promise<number> {
    const n = ((await this.ctx.storage.get<number>("n")) ?? 0) + 1;
    await this.ctx.storage.put("n", n);
    return n;
  }
  async increment(how: "transaction" | "block"): Promise<number> {
    await gate.opened;
    const { storage } = this.ctx;
    return how === "block"
      ? this.ctx.blockConcurrencyWhile(() => this.add())
      : storage.transaction(() => this.add());
  }
  /** After `afterMs`, a transaction that writes `key` and takes `ms`. */
  async write(key: string, { afterMs = 0, ms = 0, fails = false }): Promise<void> {
    await sleep(afterMs);
    await this.ctx.storage.transaction(async (txn) => {
      await txn.put(key, 1);
      await sleep(ms);
      if (fails) throw new Error(`${key} fails`);
    });
  }
  async block(ms: number): Promise<void> {
    await this.ctx.blockConcurrencyWhile(async () => {
      await this.ctx.storage.put("block", "begins");
      await sleep(ms);
      await this.ctx.storage.put("block", "ends");
    });
  }
  /** A call of storage by an event that has waited for something outside. */
  async later(afterMs: number, what: "read" | "put" | "alarm"): Promise<unknown> {
    await sleep(afterMs);
    const { storage } = this.ctx;
    if (what === "put") await storage.put("later", 1);
    if (what === "alarm") await storage.setAlarm(Date.now() + 60_000);
    return what === "read" ? [...(await storage.list()).entries()] : Date.now();
  }
  async nested(): Promise<unknown> {
    const { storage } = this.ctx;
    await storage.transaction(async (outer) => {
      await outer.put("a", 1);
      await this.ctx.blockConcurrencyWhile(() =>
        storage.transaction(async (inner) => {
          await sleep(10);
          await inner.put("b", 1);
          await outer.put("c", 1);
        }),
      );
      const undone = storage.transaction(async (inner) => {
        await sleep(10);
        await inner.put("d", 1);
        inner.rollback();
      });
      await storage.put("e", 1);
      await undone;
    });
    return this.keys();
  }
  /** Sets the alarm in a transaction, and returns whether it was set there and afterwards. */
  async alarms(undone: boolean): Promise<unknown> {
    const { storage } = this.ctx;
    const atMs = Date.now() + 60_000;
    const inside = await storage.transaction(async (txn) => {
      await txn.setAlarm(atMs + 0.5);
      const found = (await txn.getAlarm()) === atMs;
      if (undone) txn.rollback();
      return [found, await txn.put("a", 1).then(() => "stored", String)];
    });
    const after = (await storage.getAlarm()) === atMs;
    await storage.transaction((txn) => txn.deleteAlarm());
    return [...inside, after, await storage.getAlarm()];
  }
  async keys(): Promise<string[]> {
    return [...(await this.ctx.storage.list()).keys()];
  }
  alarm() {}
}

/** Calls the object, and resolves to the result or the error's text, with the seconds it took. */
class Caller extends Agent<{ Tally: ObjectNamespace<Tally> }> {
  async call(method: string, ...args: unknown[]): Promise<unknown> {
    const tally = this.env.Tally.getByName("t") as unknown as Record<
      string,
      (...given: unknown[]) => Promise<unknown>
    >;
    return tally[method]!(...args).then(
      (value) => value ?? "done",
      (error: unknown) => String(error),
    );
  }
}

const start = () => testAgents({ agents: [Caller, Tally as never] });
let callers = 0;
const call = (t: TestAgents, method: keyof Tally, ...args: unknown[]): Promise<unknown> =>
  t.agent(Caller, `c${callers++}`).call(method, ...args);

test.for(["transaction", "block"] as const)(
  "events that continue at the same moment do not interleave in a %s",
  async (how) => {
    await using t = await start();
    let open!: () => void;
    gate = { opened: new Promise((resolve) => (open = resolve)), open: () => open() };
    const calls = [1, 2, 3].map(() => call(t, "increment", how));
    await t.advance("1 second");
    gate.open();
    expect((await Promise.all(calls)).toSorted()).toEqual([1, 2, 3]);
  },
);

test.for([
  { a: false, b: false, kept: ["A", "B"] },
  { a: true, b: false, kept: ["B"] },
  { a: false, b: true, kept: ["A"] },
])(
  "of two transactions the second begins after the first has ended: %o",
  async ({ a, b, kept }) => {
    await using t = await start();
    const first = call(t, "write", "A", { afterMs: 1000, ms: 3000, fails: a });
    await t.advance("100 ms");
    const second = call(t, "write", "B", { afterMs: 400, ms: 1500, fails: b });
    await t.advance("10 seconds");
    expect(await first).toBe(a ? "Error: A fails" : "done");
    expect(await second).toBe(b ? "Error: B fails" : "done");
    expect(await call(t, "keys")).toEqual(kept);
    await t.crash();
    await t.revive();
    expect(await call(t, "keys")).toEqual(kept);
  },
);

test.for(["put", "alarm"] as const)(
  "a call (%s) of an event that began earlier waits for the transaction",
  async (what) => {
    await using t = await start();
    const later = call(t, "later", 1000, what);
    await t.advance("500 ms");
    const write = call(t, "write", "A", { ms: 5000, fails: true });
    const beganMs = Number(t.now);
    await t.advance("10 seconds");
    expect(await write).toBe("Error: A fails");
    expect(Number(await later) - beganMs).toBeGreaterThanOrEqual(5000);
    expect(await call(t, "keys")).toEqual(what === "put" ? ["later"] : []);
  },
);

test("a read waits for a block, and does not see what is half done", async () => {
  await using t = await start();
  const read = call(t, "later", 1000, "read");
  await t.advance("500 ms");
  const block = call(t, "block", 5000);
  await t.advance("10 seconds");
  await block;
  expect(await read).toEqual([["block", "ends"]]);
});

test("blocks and transactions within a transaction are part of it", async () => {
  await using t = await start();
  const nested = call(t, "nested");
  await t.advance("1 second");
  expect(await nested).toEqual(["a", "b", "c", "e"]);
});

test("a transaction that takes longer than 30 s ends with its object, and stores nothing", async () => {
  await using t = await start();
  void call(t, "write", "A", { ms: 1_000_000 }).catch(() => undefined);
  await t.advance("31 seconds");
  expect(await call(t, "keys")).toEqual([]);
});

test("a transaction has the alarm, and its calls reject once it is rolled back", async () => {
  await using t = await start();
  const undone = "Error: The transaction has been rolled back";
  expect(await call(t, "alarms", true)).toEqual([true, undone, false, null]);
  expect(await call(t, "alarms", false)).toEqual([true, "stored", true, null]);
});
