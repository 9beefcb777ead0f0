/** The queue: durable, first in first out, one item at a time. */
import { beforeEach, describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { QueueItem } from "../../core/queue/QueueTable.ts";
import { JobRig } from "./JobRig.ts";

let rig: JobRig;
/** Payloads in the order in which they began. */
let ran: unknown[];
let items: QueueItem[];
/** What an item does; each test sets it. */
let onItem: (agent: Worker, payload: unknown) => unknown;

class Worker extends Agent<unknown, { readonly seen: unknown[] }> {
  override initialState = { seen: [] as unknown[] };
  async work(payload: unknown, item: QueueItem): Promise<void> {
    ran.push(payload);
    items.push(item);
    await onItem(this, payload);
    this.setState({ seen: [...this.state.seen, payload] });
  }
  async other(payload: unknown): Promise<void> {
    ran.push(`other ${String(payload)}`);
  }
  add(callback: string, payload?: unknown, options?: object): Promise<string> {
    return this.queue(callback as "work", payload, options);
  }
  async addAll(...payloads: unknown[]): Promise<string[]> {
    const ids: string[] = [];
    for (const payload of payloads) ids.push(await this.queue("work", payload));
    return ids;
  }
  async addNothing(): Promise<string> {
    return this.queue("work");
  }
  async addThenLook(payload: unknown): Promise<unknown> {
    const id = await this.queue("work", payload);
    const ranAtOnce = ran.length;
    return { ranAtOnce, item: await this.getQueue(id) };
  }
  async takeOut(id: string): Promise<boolean> {
    return this.dequeue(id);
  }
  takeOutAll(): Promise<number> {
    return this.dequeueAll();
  }
  takeOutBy(callback: string): Promise<number> {
    return this.dequeueAllByCallback(callback);
  }
  async one(id: string): Promise<unknown> {
    return (await this.getQueue(id)) ?? null;
  }
  some(key: string, value: unknown): Promise<unknown[]> {
    return this.getQueues(key, value);
  }
  block(ms: number): Promise<void> {
    return this.ctx.blockConcurrencyWhile(() => wait(ms));
  }
  undo(payload: unknown): string {
    try {
      this.ctx.storage.transactionSync(() => {
        void this.queue("work", payload);
        throw new Error("undone");
      });
    } catch (error) {
      return (error as Error).message;
    }
    return "kept";
  }
  run(sql: string): unknown[] {
    return this.ctx.storage.sql.exec(sql).toArray();
  }
  seen(): unknown[] {
    return this.state.seen;
  }
  override onError(): void {}
}

const wait = (ms: number) => new Promise<void>((resolve) => rig.time.after(ms, resolve));

beforeEach(async () => {
  ran = [];
  items = [];
  onItem = () => undefined;
  rig = await JobRig.make({ Worker });
});

const call = <A = unknown>(method: string, ...args: unknown[]) => rig.call<A>("a", method, ...args);

describe("an item", () => {
  test("runs after the turn that pushed it, which already has its id", async () => {
    const { ranAtOnce, item } = await call<{ ranAtOnce: number; item: QueueItem }>("addThenLook", {
      a: 1,
    });
    expect(ranAtOnce).toBe(0);
    expect(item).toEqual({
      id: item.id, callback: "work", payload: { a: 1 },
      createdAt: Math.floor(rig.time.nowMs() / 1000),
      retry: { maxAttempts: 3, baseDelayMs: 100, maxDelayMs: 3_000 },
    }); // prettier-ignore
    await rig.settled();
    expect([ran, items]).toEqual([[{ a: 1 }], [item]]);
  });

  test("has no payload if none was passed", async () => {
    await call("addNothing");
    await rig.settled();
    expect(ran).toEqual([undefined]);
  });

  test.each<[string, unknown[], string]>([
    ["an unknown method", ["nope"], "this.nope is not a function"],
    ["the class itself", ["constructor"], "this.constructor is not a function"],
    ["a method that every object has", ["valueOf"], "this.valueOf is not a function"],
    ["no name of a method", [{ method: "work" }], "queue: the method must be its name, and not of type object"],
    ["retry options out of range", ["work", 1, { maxAttempts: 0 }], "retry.maxAttempts must be >= 1"],
    ["the same inside `retry`", ["work", 1, { retry: { baseDelayMs: 4_000 } }], "retry.baseDelayMs must be <= retry.maxDelayMs"],
    ["an unknown option", ["work", 1, { retries: 5 }], 'queue("work", …): unknown option "retries"; the options are retry, id'],
    ["an unknown retry option", ["work", 1, { maxAttempts: 5, delayMs: 1 }], 'queue("work", …): retry: unknown option "delayMs"'],
    ["options that are none", ["work", 1, 5], "queue(\"work\", …): the options must be an object with retry, id, not a number"],
  ])("with %s is refused at the push", async (_name, args, message) => {
    await expect(call("add", ...args)).rejects.toThrow(message);
    await rig.settled();
    expect(ran).toEqual([]);
  }); // prettier-ignore

  test("takes retry options in its last argument or under `retry`", async () => {
    onItem = () => {
      throw new Error("no");
    };
    await call("add", "work", 1, { maxAttempts: 1 });
    await call("add", "work", 2, { retry: { maxAttempts: 2 } });
    await rig.pass(10_000);
    expect(ran).toEqual([1, 2, 2]);
  });

  test("of a rolled-back transaction never existed", async () => {
    expect(await call("undo", 1)).toBe("undone");
    await rig.pass(1_000);
    expect(ran).toEqual([]);
    expect(rig.broker.inbox.depth).toBe(0);
  });
});

describe("the queue", () => {
  test("is first in, first out", async () => {
    const payloads = Array.from({ length: 50 }, (_, n) => n);
    await call("addAll", ...payloads);
    await rig.pass(1_000);
    expect(ran).toEqual(payloads);
    expect(await call("seen")).toEqual(payloads);
  });

  test("runs one item at a time, its retries included", async () => {
    let running = 0;
    let most = 0;
    onItem = async (_agent, payload) => {
      most = Math.max(most, ++running);
      try {
        await wait(100);
        if (payload === 1 && ran.length < 3) throw new Error("again");
      } finally {
        running--;
      }
    };
    await call("addAll", 1, 2, 3);
    await rig.pass(10_000);
    expect(most).toBe(1);
    expect(ran).toEqual([1, 1, 1, 2, 3]);
  });

  test("does not let a failed item block later ones", async () => {
    onItem = (_agent, payload) => {
      if (payload === "bad") throw new Error("bad");
    };
    await call("addAll", "good 1", "bad", "good 2");
    await rig.pass(10_000);
    expect(await call("seen")).toEqual(["good 1", "good 2"]);
    expect(rig.dead).toMatchObject([{ callback: "work", payload: "bad", reason: "Error: bad" }]);
  });

  test("runs what an item pushes after what was pushed before", async () => {
    onItem = async (agent, payload) => {
      if (payload === 1) await agent.addAll(11, 12);
    };
    await call("addAll", 1, 2);
    await rig.pass(1_000);
    expect(ran).toEqual([1, 2, 11, 12]);
  });

  test("continues on the next host without a further call", async () => {
    onItem = () => wait(1_000);
    await call("addAll", 1, 2, 3, 4);
    await rig.pass(1_500);
    rig.kill();
    await rig.startHost();
    await rig.pass(10_000);
    // 2 ran when the host died: it began twice and was done once.
    expect(ran).toEqual([1, 2, 2, 3, 4]);
    expect(await call("seen")).toEqual([1, 2, 3, 4]);
    expect(rig.broker.inbox.depth).toBe(0);
  });

  test("finishes the running item at a hand-over, and leaves the rest to the next host", async () => {
    onItem = () => wait(1_000);
    await call("addAll", 1, 2, 3, 4);
    await rig.pass(1_500);
    await rig.handOver();
    expect(ran).toEqual([1, 2]);
    await rig.pass(5_000);
    expect(ran).toEqual([1, 2]);
    await rig.startHost();
    await rig.pass(10_000);
    expect(ran).toEqual([1, 2, 3, 4]);
    expect(await call("seen")).toEqual([1, 2, 3, 4]);
  });

  test("wakes a hibernating agent", async () => {
    onItem = () => wait(60_000);
    await call("addAll", 1, 2);
    rig.kill();
    await rig.pass(1_000);
    await rig.startHost();
    await rig.pass(130_000);
    expect(await call("seen")).toEqual([1, 2]);
  });

  test("waits while blockConcurrencyWhile blocks turns", async () => {
    const blocked = call("block", 5_000);
    await call("addAll", 1).catch(() => undefined);
    await blocked;
    expect(rig.time.monotonicMs()).toBeGreaterThanOrEqual(5_000);
    await rig.settled();
    expect(ran).toEqual([1]);
  });

  test("does not keep an idle agent in memory, nor its triggers in the inbox", async () => {
    await call("addAll", 1, 2, 3);
    await rig.hibernate();
    expect(rig.activeAgents).toBe(0);
    expect(rig.broker.inbox.depth).toBe(0);
  });
});

describe("pushing the same id again", () => {
  test("replaces the waiting item at its position", async () => {
    onItem = () => wait(1_000);
    await call("add", "work", "first");
    await call("add", "work", "old", { id: "x" });
    await call("add", "work", "last");
    expect(await call("add", "work", "new", { id: "x" })).toBe("x");
    await rig.pass(10_000);
    expect(ran).toEqual(["first", "new", "last"]);
    expect(rig.broker.inbox.depth).toBe(0);
  });

  test("leaves no trigger of the replaced items in the inbox", async () => {
    onItem = () => wait(60_000);
    await call("add", "work", "first");
    for (let n = 0; n < 20; n += 1) {
      await call("add", "work", n, { id: "x" });
      await rig.pass(100);
    }
    expect(rig.broker.inbox.depth).toBe(2);
  });

  test("adds one more run, next, while that item is running", async () => {
    onItem = () => wait(1_000);
    await call("add", "work", "old", { id: "x" });
    await call("add", "work", "last");
    await rig.pass(500);
    await call("add", "work", "new", { id: "x" });
    await rig.pass(10_000);
    expect(ran).toEqual(["old", "new", "last"]);
  });

  test("resets the attempts of the replaced item", async () => {
    onItem = (_agent, payload) => {
      if (payload === "old") throw new Error("no");
    };
    await call("add", "work", "old", { id: "x", retry: { maxAttempts: 50 } });
    await rig.pass(150);
    await call("add", "work", "new", { id: "x" });
    const tried = ran.length;
    await rig.pass(60_000);
    expect(ran.slice(tried)).toEqual(["new"]);
    expect(rig.dead).toEqual([]);
  });

  test("adds a new item after it has run", async () => {
    await call("add", "work", 1, { id: "x" });
    await rig.settled();
    await call("add", "work", 2, { id: "x" });
    await rig.settled();
    expect(ran).toEqual([1, 2]);
  });
});

describe("removing items", () => {
  beforeEach(() => {
    onItem = () => wait(1_000);
  });

  test("works by id", async () => {
    const [, second] = await call<string[]>("addAll", 1, 2, 3);
    expect(await call("takeOut", second)).toBe(true);
    expect(await call("takeOut", second)).toBe(false);
    await rig.pass(10_000);
    expect(ran).toEqual([1, 3]);
    expect(rig.broker.inbox.depth).toBe(0);
  });

  test("works for all, and for all of one callback", async () => {
    await call("addAll", 1, 2);
    await call("add", "other", "a");
    await call("add", "other", "b");
    expect(await call("takeOutBy", "other")).toBe(2);
    // The one that runs counts: it is there until it ends, and goes on.
    expect(await call("takeOutAll")).toBe(2);
    await rig.pass(10_000);
    expect(ran).toEqual([1]);
    expect(await call("seen")).toEqual([1]);
    expect(rig.broker.inbox.depth).toBe(0);
  });

  test("leaves nothing for a later host to run", async () => {
    const [, second] = await call<string[]>("addAll", 1, 2, 3);
    await call("takeOut", second);
    rig.kill();
    await rig.startHost();
    await rig.pass(10_000);
    expect(ran).toEqual([1, 1, 3]);
    expect(rig.broker.inbox.depth).toBe(0);
  });

  test("does not lose an item if a crash undoes it", async () => {
    const [, second] = await call<string[]>("addAll", 1, 2);
    rig.broker.intercept = ({ kind }) =>
      kind === "append" ? new Promise<void>(() => undefined) : undefined;
    rig.call("a", "takeOut", second).catch(() => undefined);
    await rig.pass(100);
    rig.kill();
    rig.broker.intercept = undefined;
    await rig.startHost();
    await rig.pass(10_000);
    expect(ran).toEqual([1, 1, 2]);
  });

  test("works by DROP TABLE, after which the queue works again", async () => {
    await call("addAll", 1, 2);
    await call("run", "DROP TABLE svc_agents_queue");
    await rig.pass(2_000);
    await call("addAll", 3);
    await rig.pass(5_000);
    expect(ran).toEqual([1, 3]);
  });
});

describe("the item of a trigger", () => {
  /** How SQLite finds it. */
  class Planner extends Worker {
    plan(): unknown {
      return this.sql`EXPLAIN QUERY PLAN SELECT 1 FROM svc_agents_queue WHERE uid = 'x'`[0]![
        "detail"
      ];
    }
    addToOlder(): Promise<string> {
      this.sql`CREATE TABLE svc_agents_queue (seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE, uid TEXT NOT NULL, callback TEXT NOT NULL, payload TEXT,
        retry_options TEXT NOT NULL, created_at INTEGER NOT NULL)`;
      return this.queue("work", 1);
    }
  }
  const byIndex = expect.stringContaining("USING COVERING INDEX svc_agents_queue_uid");

  test("is found by an index, so that thousands of items cost no more each than a few", async () => {
    rig = await JobRig.make({ Planner });
    await rig.call("a", "add", "work", 1);
    expect(await rig.call("a", "plan")).toEqual(byIndex);
  });

  test("is found by an index in a table of an older release, once an item is added", async () => {
    rig = await JobRig.make({ Planner });
    await rig.call("a", "addToOlder");
    await rig.pass(1_000);
    expect([await rig.call("a", "plan"), ran]).toEqual([byIndex, [1]]);
  });
});

describe("reading items", () => {
  test("finds one by id, some by a value in their payload", async () => {
    onItem = () => wait(1_000);
    const ids = await call<string[]>(
      "addAll",
      { k: 1 },
      { k: 2 },
      { k: 1, more: true },
      null,
      "text",
    );
    expect(await call("one", ids[1])).toMatchObject({ id: ids[1], payload: { k: 2 } });
    expect(await call("one", "nothing")).toBeNull();
    const found = await call<QueueItem[]>("some", "k", 1);
    expect(found.map(({ id }) => id)).toEqual([ids[0], ids[2]]);
  });
});
