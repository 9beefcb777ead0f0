/** Durable Objects of a whole installation, as the reference's code uses them, but for sockets. */
import { beforeAll, describe, expect, test } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { journalOf, postGithub, useSystems, type System } from "../system/kit.ts";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";
import { objectsModule } from "./kit.ts";
import type { Counter, Ledger, Waker } from "./objectsModule.ts";

interface Env {
  readonly COUNTER: ObjectNamespace<Counter>;
  readonly Counter: ObjectNamespace<Counter>;
  readonly Waker: ObjectNamespace<Waker>;
  readonly Ledger: ObjectNamespace<Ledger>;
}
type Methods = Record<string, (...args: unknown[]) => Promise<unknown>>;

const systems = useSystems();
let system: System & { readonly options: Parameters<typeof journalOf>[0] };
let env: Env;
let counters: ObjectNamespace<Counter>;
const counter = (name: string) => counters.getByName(name) as unknown as Methods;

beforeAll(async () => {
  system = await systems.start(objectsModule());
  env = system.gateway.env as unknown as Env;
  counters = env.COUNTER;
});

describe("an id", () => {
  test("from a name is the same each time, and is parsed back from its text", () => {
    const id = counters.idFromName("Grüße");
    expect(id.name).toBe("Grüße");
    expect(id.toString()).toMatch(/^[0-9a-f]{64}$/);
    expect(id.equals(counters.idFromName("Grüße"))).toBe(true);
    expect(id.equals(counters.idFromName("Grüsse"))).toBe(false);
    const again = counters.idFromString(id.toString());
    expect([again.name, again.equals(id)]).toEqual(["Grüße", true]);
    const long = counters.idFromName("x".repeat(500));
    expect(counters.idFromString(long.toString()).name).toHaveLength(500);
  });

  test("without a name is a new one each time", async () => {
    const [a, b] = [counters.newUniqueId(), counters.newUniqueId()];
    expect([a.name, a.equals(b)]).toEqual([undefined, false]);
    expect(a.toString()).toMatch(/^[0-9a-f]{64}$/);
    await counters.get(a).increment(5);
    expect(await counters.get(counters.idFromString(a.toString())).value()).toBe(5);
    const { id, name } = await counters.get(a).about();
    expect([id, name]).toEqual([a.toString(), undefined]);
  });

  test.each([
    ["no hexadecimal", () => "hello"],
    ["too short", () => "00"],
    ["changed", () => counters.idFromName("a").toString().replace(/^../, "62")],
    ["another class's", () => env.Waker.idFromName("a").toString()],
    ["a sub-agent's address", () => counters.idFromName("a/b").toString().replace(/^61/, "2f")],
  ])("is refused when it is %s", (_what, text) => {
    expect(() => counters.idFromString(text())).toThrow(/is not an id of Counter/);
  });

  test.each(["/", "/a", "~/a", "~~/a", "~a", "/Vault/a/b"])(
    "of the name %s, like any name, has an object of its own",
    async (name) => {
      const stub = counters.getByName(name);
      expect([stub.name, stub.id.name]).toEqual([name, name]);
      expect(counters.idFromString(stub.id.toString()).name).toBe(name);
      expect(await stub.increment()).toBe(1);
      expect(await stub.about()).toMatchObject({ name, id: stub.id.toString() });
    },
  );

  test("of another binding is rejected by get", () => {
    expect(() => counters.get(env.Waker.idFromName("a"))).toThrow(/get\(\) of Counter takes an id/);
  });
});

describe("a method", () => {
  test("is called by its name after the constructor has finished", async () => {
    const stub = counters.getByName("methods");
    expect([await stub.increment(), await stub.increment(3)]).toEqual([1, 4]);
    const { id, constructed, ...about } = await stub.about();
    expect(about).toEqual({ name: "methods", bound: "Counter" });
    // Again where a busy machine has let it hibernate.
    expect(constructed).toBeGreaterThanOrEqual(1);
    expect(id).toBe(stub.id.toString());
    expect(await counter("methods")["_underscored"]!()).toBe("a method like any other");
    expect(env.Counter).toBe(env.COUNTER);
  });

  test("that reads, adds and writes between awaits loses no update", async () => {
    const stub = counters.getByName("crowd");
    const values = await Promise.all(Array.from({ length: 40 }, () => stub.increment()));
    expect(values.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
  });

  test("takes and returns structured-clonable values", async () => {
    const cycle: Record<string, unknown> = { at: new Date(5) };
    cycle["self"] = cycle;
    const values = [
      new Map<unknown, unknown>([["k", new Set([1n])]]), new Uint8Array([1, 2]), undefined, NaN, /a/g, cycle, "text", null,
    ]; // prettier-ignore
    expect(await counter("clone")["echo"]!(...values)).toEqual(values);
    const error = (await counter("clone")["echo"]!(new RangeError("far"))) as [Error];
    expect([error[0] instanceof RangeError, error[0].message]).toEqual([true, "far"]);
  });

  test.each([
    ["instance", /the result of give is of type Counter/],
    ["function", /the result of give is a function/],
    ["stub", /the result of give is of type object/],
  ])("rejects a result that can't be cloned: %s", async (what, message) => {
    await expect(counter("bad")["give"]!(what)).rejects.toThrow(message);
  });

  test("rejects an argument that can't be cloned", async () => {
    const call = counter("bad")["echo"]!({ deep: [() => 1] });
    await expect(call).rejects.toThrow("the arguments of echo: [0].deep[0] is a function");
  });

  test("throws its error to the caller", async () => {
    const failing = counter("failing")["fail"]!;
    await expect(failing("range")).rejects.toBeInstanceOf(RangeError);
    await expect(failing("own")).rejects.toMatchObject({ name: "OutOfStock", message: "nothing left", cause: { shelf: 7 } }); // prettier-ignore
  });

  test.each(["missing", "alarm", "toString", "hasOwnProperty", "ctx", "runtime", "onMessage"])(
    "can't be %s",
    async (name) => {
      const stub = env.Waker.getByName("none") as unknown as Methods;
      await expect(stub[name]!()).rejects.toThrow(`Method ${name} does not exist`);
    },
  );

  test("calls another object", async () => {
    expect(await counters.getByName("first").other("second", 7)).toBe(7);
    expect(await counters.getByName("second").value()).toBe(7);
  });
});

describe("fetch", () => {
  test("reaches a class that extends nothing through its binding", async () => {
    const get = await fetch(`${system.url}/legacy/one/path?q`);
    expect(await get.json()).toEqual({ seen: 1, text: "", path: "/legacy/one/path" });
    const post = await fetch(`${system.url}/legacy/one`, { method: "POST", body: "hello" });
    expect(await post.json()).toEqual({ seen: 2, text: "hello", path: "/legacy/one" });
  });

  test("rejects with what the object's fetch throws, and is a 500 to a client", async () => {
    const why = "Waker has no fetch(): call its methods by name";
    const failed = await env.Waker.getByName("x")
      .fetch("http://object/")
      .catch((error) => error);
    expect(failed).toBeInstanceOf(TypeError);
    expect(failed.message).toBe(why);
    const response = await fetch(`${system.url}/none/x`);
    expect([response.status, await response.text()]).toEqual([500, "Internal Server Error"]);
    const lines = system.host.log.lines.map(({ fields }) => JSON.stringify(fields ?? ""));
    expect(lines.join()).toContain(why);
  });
});

describe("storage", () => {
  const store = (name: string, task: string) => counter(name)["store"]!(task);

  test("undoes a transaction that rejects or rolls back, its SQL too", async () => {
    expect(await store("transactions", "undone")).toEqual([
      "not so", "returned", 3, 0, [["constructed", 1], ["kept", 1], ["second", 2]],
    ]); // prettier-ignore
  });

  test("lists, reads and deletes many keys", async () => {
    expect(await store("lists", "list")).toEqual([
      "c/1,c/2", "b,c/1", "c/1", "constructed,c/2", [["a", 1], ["b", 2]], 1, 2,
]); // prettier-ignore
  });

  test("runs SQL with a cursor; bytes are an ArrayBuffer", async () => {
    expect(await store("sql", "sql")).toEqual([2, ["n", "data"], 2, 2, true, [[1], [2]], true]);
  });

  test("deletes everything: keys, tables that reference each other, views, the alarm", async () => {
    expect(await env.Waker.getByName("empty").empty()).toEqual([[], null, 0, 2]);
  });

  test("survives eviction from memory", async () => {
    const stub = counters.getByName("sleeper");
    await stub.increment();
    const look = async () => (await stub.about()).constructed > 1;
    // Longer than it stays in memory: each look keeps it there.
    await pollUntil("it was constructed again", look, { intervalMs: 700 });
    expect(await stub.value()).toBe(1);
  });
});

describe("an alarm", () => {
  const waker = (name: string) => env.Waker.getByName(name);
  const ran = (name: string, count: number) =>
    pollUntil(
      `${count} runs`,
      async () => {
        const seen = await waker(name).runs();
        const done = seen.runs?.length === count;
        return done ? { done, value: seen } : { done, saw: seen };
      },
      { timeoutMs: 30_000, intervalMs: 20 },
    );

  test("runs once at its time, even if the object was evicted meanwhile", async () => {
    const beforeMs = Date.now();
    expect(await waker("once").arm(600)).toBeGreaterThanOrEqual(beforeMs + 600);
    const { runs, alarm } = await ran("once", 1);
    expect(runs).toEqual([{ isRetry: false, retryCount: 0, alarm: null }]);
    expect(alarm).toBeNull();
  });

  test("set in its handler runs again", async () => {
    await waker("again").arm(1, ["again", "again"]);
    const { runs } = await ran("again", 3);
    expect(runs).toEqual(Array(3).fill({ isRetry: false, retryCount: 0, alarm: null }));
  });

  test("is replaced by the next one, and can be cancelled", async () => {
    await waker("moved").arm(3_600_000);
    const at = await waker("moved").arm(7_200_000);
    expect(at).toBeGreaterThan(Date.now() + 7_000_000);
    expect(await waker("moved").disarm()).toBeNull();
  });

  test("requires a handler and a time", async () => {
    await expect(counters.getByName("none").wake()).rejects.toThrow(/Counter has no alarm\(\)/);
    await expect(waker("none").arm(NaN)).rejects.toThrow(/takes a Date, or milliseconds/);
  });
});

test("a redelivered webhook is applied once, and history shows what it did", async () => {
  const url = `${system.url}/ledger`;
  const send = (id: string) => postGithub(url, { account: "a", amount: 5 }, { id });
  expect((await send("w1")).text).toBe(`{"sum":5}`);
  await send("w1");
  expect((await send("w2")).text).toBe(`{"sum":10}`);
  expect(await env.Ledger.getByName("a").sum()).toBe(10);
  const events = await journalOf(system.options, "Ledger", "a");
  const done = events.flatMap(({ turns }) => turns).filter(({ cause }) => cause.kind === "webhook");
  expect(done.map(({ cause }) => cause.body)).toHaveLength(2);
});
