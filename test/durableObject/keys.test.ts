/** Keys of a Durable Object: what `ctx.storage` refuses, and that it does so as a whole. */
import { DurableObject } from "cloudflare:workers";
import { expect, test } from "vitest";
import { Agent } from "agents";
import { testAgents } from "agents/testing";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";

class Store extends DurableObject {
  async put(entries: () => Record<string, unknown>): Promise<unknown> {
    const error = await this.ctx.storage.put(entries()).then(() => "stored", String);
    return [error, [...(await this.ctx.storage.list()).keys()]];
  }
  several(): Promise<unknown> {
    return this.put(() => ({ a: 1, b: undefined, c: 3 }));
  }
  uncloneable(): Promise<unknown> {
    return this.put(() => ({ a: 1, b: () => 1 }));
  }
  halves(): Promise<unknown> {
    return this.put(() => ({ a: 1, "\ud800": 2 }));
  }
  async listed(): Promise<unknown> {
    await this.ctx.storage.put({ a: 1, b: 2, c: 3 });
    const lists = [
      { limit: 0 },
      { start: "a", startAfter: "a" },
      { limit: 2.5 },
      { limit: Infinity },
    ];
    return Promise.all(
      lists.map((options) =>
        this.ctx.storage.list(options).then((found) => [...found.keys()].join(""), String),
      ),
    );
  }
  async numbers(): Promise<unknown> {
    const { storage } = this.ctx;
    await storage.put(5 as never, "a");
    await storage.put(["x", "y"] as never, "b");
    storage.kv.put(null as never, "c");
    const missing = await storage.put(undefined as never, 1).then(() => "stored", String);
    const found = [await storage.get(5 as never), storage.kv.get(null as never)];
    return [missing, found, [...(await storage.list()).keys()], await storage.delete(5 as never)];
  }
  async found(): Promise<unknown> {
    const keys = ["😀", "\uffff", "b", "a", "none", "b"];
    for (const key of ["b", "a", "😀", "\uffff"]) await this.ctx.storage.put(key, 1);
    return [...(await this.ctx.storage.get(keys)).keys()];
  }
  async one(): Promise<unknown> {
    return this.ctx.storage.put("\ud801", 1).then(() => "stored", String);
  }
  whole(): Promise<unknown> {
    return this.put(() => ({ "😀": 1, "\0": 2 }));
  }
}

class Caller extends Agent<{ Store: ObjectNamespace<Store> }> {
  call(
    method: "several" | "listed" | "uncloneable" | "halves" | "one" | "whole" | "numbers" | "found",
  ): Promise<unknown> {
    return this.env.Store.getByName("s")[method]() as Promise<unknown>;
  }
}

test("put stores all entries or none", async () => {
  await using t = await testAgents({ agents: [Caller, Store as never] });
  const caller = t.agent(Caller, "c");
  const none = (text: string) => [expect.stringContaining(text), []];
  expect(await caller.call("uncloneable")).toEqual(none("DataCloneError"));
  expect(await caller.call("halves")).toEqual(none('"\\ud800"): the key contains half'));
});

test("put of several keys leaves those that are undefined", async () => {
  await using t = await testAgents({ agents: [Caller, Store as never] });
  expect(await t.agent(Caller, "c").call("several")).toEqual(["stored", ["a", "c"]]);
});

test("list refuses what the reference's platform refuses", async () => {
  await using t = await testAgents({ agents: [Caller, Store as never] });
  expect(await t.agent(Caller, "c").call("listed")).toEqual([
    "TypeError: storage.list: the limit 0 is not above 0",
    "TypeError: storage.list: give start or startAfter, not both",
    "ab",
    "abc",
  ]);
});

test("put refuses keys that would be one in the database", async () => {
  await using t = await testAgents({ agents: [Caller, Store as never] });
  const caller = t.agent(Caller, "c");
  expect(await caller.call("one")).toContain("the key contains half a surrogate pair");
  expect(await caller.call("whole")).toEqual(["stored", ["\0", "😀"]]);
});

test("a key that is no text is made one", async () => {
  await using t = await testAgents({ agents: [Caller, Store as never] });
  expect(await t.agent(Caller, "c").call("numbers")).toEqual([
    "TypeError: storage: the key is undefined",
    ["a", "c"],
    ["5", "null", "x,y"],
    true,
  ]);
});

test("get of several keys returns them in the order of keys", async () => {
  await using t = await testAgents({ agents: [Caller, Store as never] });
  expect(await t.agent(Caller, "c").call("found")).toEqual(["a", "b", "\uffff", "😀"]);
});
