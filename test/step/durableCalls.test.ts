/** Durable calls: one call by its key, a durable turn with steps, and a kept end. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Agent, callable, withKey, type Connection, type ConnectionContext } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import { CallResults, RESULTS_TABLE } from "../../core/durableCall/CallResults.ts";
import { agentId } from "../../schemas/Address.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { pollUntil } from "../kit/poll.ts";
import { makeLatch } from "../system/kit.ts";
import { StepCalls } from "./StepCalls.ts";

/** Made anew for each test: how often each step's function ran, its keys, and its latch. */
let { calls, keys, latches, run: runStep } = new StepCalls();

class Wallet extends Agent<{}, { paid: number }> {
  static override options = { retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 10 } };
  override initialState = { paid: 0 };

  override shouldConnectionBeReadonly(_: Connection, { request }: ConnectionContext): boolean {
    return new URL(request.url).searchParams.has("readonly");
  }

  @callable({ durable: true })
  async pay(amount: number): Promise<string> {
    this.setState({ paid: this.state.paid + amount });
    const charge = await this.step("charge", (step) => runStep("charge", step));
    this.sql`CREATE TABLE IF NOT EXISTS paid (charge TEXT)`;
    this.sql`INSERT INTO paid VALUES (${charge})`;
    return charge;
  }

  @callable({ durable: true })
  async refuse(): Promise<void> {
    calls.push("refuse");
    await this.step("reserve", (step) => runStep("reserve", step), {
      undo: () => void calls.push("release"),
    });
    throw new RangeError("not enough");
  }

  @callable({ durable: true })
  give(value: unknown): unknown {
    return value === "a map" ? new Map() : value;
  }

  @callable({ durable: true })
  async end(): Promise<void> {
    await this.destroy();
  }

  @callable()
  plain(): string {
    return "plain";
  }
}

/** Calls a wallet from a step of its own. */
class Shop extends Agent<{ Wallet: never }, { told: string[] }> {
  override initialState = { told: [] as string[] };

  async order(): Promise<void> {
    await this.queue("buy");
  }
  async buy(): Promise<void> {
    const told = await this.step("pay", async ({ key }) => {
      const { Wallet: wallets } = this.env as unknown as { Wallet: { getByName(n: string): Wallet } }; // prettier-ignore
      const charge = await withKey(wallets.getByName("a"), key).pay(5);
      calls.push("answered");
      await latches["answered"]?.opened;
      return charge;
    });
    this.setState({ told: [...this.state.told, told] });
  }
}

let test: TestAgents;
beforeEach(async () => {
  ({ calls, keys, latches, run: runStep } = new StepCalls());
  test = await testAgents({ agents: [Wallet, Shop] });
});
afterEach(() => test.close());

const wallet = () => test.agent(Wallet, "a");
/** For code that runs at once; a machine that is late needs some of its time. */
const BEGIN_TIMEOUT_MS = 10_000;
const until = (isSo: () => boolean) =>
  pollUntil("the wallet's code runs", () => isSo() || { done: false as const, saw: calls }, {
    timeoutMs: BEGIN_TIMEOUT_MS,
    intervalMs: 1,
  });
const rows = async () => (await wallet().sql("SELECT charge FROM paid")).length;

async function crashIn(name: string): Promise<void> {
  await until(() => calls.includes(name));
  await test.crash();
  delete latches[name];
  await test.revive();
  await test.settled();
}

describe("a call with a key", () => {
  it("is applied once, and repeating it returns its result", async () => {
    const stub = withKey(wallet().stub as unknown as Wallet, "order 1");
    expect([await stub.pay(5), await stub.pay(5)]).toEqual(["charge 1", "charge 1"]);
    const client = await test.connect(Wallet, "a");
    expect(await client.call("pay", [5], { key: "order 1" })).toBe("charge 1");
    expect(await client.call("pay", [5], { key: "order 2" })).toBe("charge 2");
    expect((await wallet().state())?.paid).toBe(10);
    expect(calls).toEqual(["charge", "charge"]);
  });

  it("is applied once while it is still running, too", async () => {
    latches["charge"] = makeLatch();
    const client = await test.connect(Wallet, "a");
    const both = Promise.all([1, 2].map(() => client.call("pay", [5], { key: "k" })));
    await until(() => calls.length > 0);
    latches["charge"].open();
    expect(await both).toEqual(["charge 1", "charge 1"]);
  });

  it("whose host ends runs again on another with its completed steps, and is answered", async () => {
    latches["charge"] = makeLatch();
    const stub = withKey(wallet().stub as unknown as Wallet, "k");
    const paid = stub.pay(5);
    await crashIn("charge");
    expect(await paid).toBe("charge 2");
    expect(keys).toEqual(["Wallet/a/call%3Ak/1%3Acharge", "Wallet/a/call%3Ak/1%3Acharge"]);
    expect([(await wallet().state())?.paid, await rows()]).toEqual([5, 1]);
    expect(await stub.pay(5)).toBe("charge 2");
  });

  it("is kept with its answer when the host that answered it ends", async () => {
    const stub = withKey(wallet().stub as unknown as Wallet, "k");
    await stub.pay(5);
    await test.crash();
    await test.revive();
    expect(await stub.pay(5)).toBe("charge 1");
    expect(await rows()).toBe(1);
  });

  it("is refused with other arguments, or for another method: nothing runs", async () => {
    latches["charge"] = makeLatch();
    const client = await test.connect(Wallet, "a");
    const first = client.call("pay", [5], { key: "k" });
    await until(() => calls.length > 0);
    const refused = /the key "k" belongs to another call/;
    await expect(client.call("pay", [6], { key: "k" })).rejects.toThrow(refused);
    latches["charge"].open();
    await first;
    await expect(client.call("pay", [6], { key: "k" })).rejects.toThrow(refused);
    await expect(client.call("refuse", [], { key: "k" })).rejects.toThrow(refused);
    expect((await wallet().state())?.paid).toBe(5);
  });

  it.each(["", "x".repeat(256), "\ud800"])("has a key of 1 to 255 characters (%#)", async (key) => {
    const client = await test.connect(Wallet, "a");
    await expect(client.call("pay", [5], { key })).rejects.toThrow("text of 1 to 255 characters");
    expect(() => withKey(wallet().stub, key)).toThrow("text of 1 to 255 characters");
    expect(() => withKey({}, "k")).toThrow("not a stub");
  });

  it.each(["'; DROP TABLE x; --", "\u0000", "a:b/c~d\n", "__proto__"])(
    "may have any text as its key: %j",
    async (key) => {
      const client = await test.connect(Wallet, "a");
      expect(await client.call("give", [{ key }], { key })).toEqual({ key });
      expect(await client.call("give", [{ key }], { key })).toEqual({ key });
    },
  );

  it.each([5, "", true, ["k"]])("does not run with the key %j, which is none", async (key) => {
    const client = await test.connect(Wallet, "a");
    for (const method of ["pay", "plain"])
      await expect(client.call(method, [5], { key: key as never })).rejects.toThrow(
        "the key of a call must be text of 1 to 255 characters",
      );
    expect(calls).toEqual([]);
  });

  it("is refused for a method that is not durable", async () => {
    const client = await test.connect(Wallet, "a");
    await expect(client.call("plain", [], { key: "k" })).rejects.toThrow("Method plain is not durable"); // prettier-ignore
    const stub = withKey(wallet().stub as unknown as Wallet, "k");
    await expect(async () => stub.plain()).rejects.toThrow("Method plain is not durable");
    expect(await client.call("plain")).toBe("plain");
  });

  it("in a step is made once, however often the step runs", async () => {
    latches["answered"] = makeLatch();
    await test.agent(Shop, "s").order();
    await crashIn("answered");
    expect((await test.agent(Shop, "s").state())?.told).toEqual(["charge 1"]);
    expect([(await wallet().state())?.paid, calls.filter((call) => call === "charge")]).toEqual([
      5,
      ["charge"],
    ]);
  });
});

describe("a durable call", () => {
  it("without a key runs again after a crash, and each call is distinct", async () => {
    latches["charge"] = makeLatch();
    const client = await test.connect(Wallet, "a");
    void client.call("pay", [5]).catch(() => undefined);
    await crashIn("charge");
    expect([(await wallet().state())?.paid, await rows()]).toEqual([5, 1]);
    await (await test.connect(Wallet, "a")).call("pay", [5]);
    expect(await rows()).toBe(2);
  });

  it("that fails returns its error each time, is undone, and causes no dead letter", async () => {
    const stub = withKey(wallet().stub as unknown as Wallet, "k");
    for (let n = 0; n < 2; n++)
      await expect(stub.refuse()).rejects.toMatchObject({
        name: "RangeError",
        message: "not enough",
      });
    expect(calls).toEqual(["refuse", "reserve", "release"]);
    expect(await wallet().deadLetters()).toEqual([]);
  });

  it("whose result is not JSON fails with the reason", async () => {
    const client = await test.connect(Wallet, "a");
    await expect(client.call("give", ["a map"], { key: "k" })).rejects.toThrow("the result of give is of type Map"); // prettier-ignore
    expect(await client.call("give", [], { key: "l" })).toBeUndefined();
  });

  it("runs concurrently with others of its agent", async () => {
    latches["reserve"] = makeLatch();
    const client = await test.connect(Wallet, "a");
    const refused = expect(client.call("refuse")).rejects.toThrow("not enough");
    await until(() => calls.includes("reserve"));
    expect([await client.call("plain"), await client.call("give", [1])]).toEqual(["plain", 1]);
    latches["reserve"].open();
    await refused;
    const ten = await Promise.all(Array.from({ length: 100 }, (_, n) => client.call("give", [n])));
    expect(ten).toEqual(Array.from({ length: 100 }, (_, n) => n));
  });

  it("that destroys its agent rejects, and the next agent does not know it", async () => {
    const stub = withKey(wallet().stub as unknown as Wallet, "k");
    await stub.pay(5);
    const ending = withKey(wallet().stub as unknown as Wallet, "end");
    await expect(ending.end()).rejects.toThrow("destroyed");
    expect(await stub.pay(5)).toBe("charge 2");
  });

  it("can't be made on a readonly connection", async () => {
    const client = await test.connect(Wallet, "a", { query: { readonly: "1" } });
    await expect(client.call("pay", [5])).rejects.toThrow("Connection is readonly");
    await expect(client.call("pay", [5], { key: "k" })).rejects.toThrow("Connection is readonly");
    expect(calls).toEqual([]);
  });

  it("can't stream", () => {
    expect(() => callable({ durable: true, streaming: true })).toThrow("can't be durable");
  });
});

describe("the record of ended calls", () => {
  it("is limited to the newest; that a call has ended is known for longer", async () => {
    const sqlite = await openSqliteDatabases({ folder: undefined });
    const { database } = sqlite.databases.open(agentId("A", "a"));
    const results = new CallResults(database);
    const big = JSON.stringify("x".repeat(6 * 1024 * 1024));
    for (let n = 0; n < 5; n++) results.add(`k${n}`, "give", { error: null, result: big }, n);
    const kept = [0, 1, 2, 3, 4].map((n) => results.get(`k${n}`)!.kept);
    expect(kept).toEqual([false, false, true, true, true]);
    expect(results.get("k0")).toMatchObject({ call: "give", result: null });
    const later = (n: number): void =>
      results.add(`later ${n}`, "give", { error: null, result: null }, 8 * 86_400_000 + n);
    later(0);
    // That time may be one of a wrong clock.
    expect(results.get("k0")).toBeDefined();
    for (let n = 1; n <= 40; n++) later(n);
    expect(results.get("k4")).toBeUndefined();
    const count = database.query(`SELECT count(*) FROM ${RESULTS_TABLE}`, []).rows[0]![0];
    expect(count).toBe(41);
    sqlite.close();
  });
});
