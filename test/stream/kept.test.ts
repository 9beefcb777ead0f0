/** Kept broadcasts: a client that was away receives what it missed, each message once. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Agent } from "agents";
import { testAgents, type TestAgents, type TestClient } from "agents/testing";
import { makeLatch } from "../system/kit.ts";

class Room extends Agent {
  say(text: string, keep?: string, without?: string[]): void {
    this.broadcast(text, {
      ...(keep === undefined ? {} : { keep }),
      ...(without === undefined ? {} : { without }),
    });
  }
  sayOld(text: string, without: string[]): void {
    this.broadcast(text, without);
  }
  sayBytes(): void {
    this.broadcast(new Uint8Array([1, 2, 3]), { keep: "1h" });
  }
  async later(text: string): Promise<void> {
    await this.queue("say2", text);
  }
  say2(text: string): void {
    this.broadcast(text, { keep: "1h" });
  }
  /** Stored before its step, which waits. */
  async slowly(): Promise<void> {
    await this.queue("sayInTurn", {});
  }
  async sayInTurn(): Promise<void> {
    this.broadcast("before the step", { keep: "1h" });
    await this.step("slow", () => slow.opened);
  }
  sayRolledBack(...texts: string[]): void {
    try {
      this.ctx.storage.transactionSync(() => {
        for (const text of texts) this.broadcast(text, { keep: "1h" });
        throw new Error("rolled back");
      });
    } catch {
      this.broadcast("after", { keep: "1h" });
    }
  }
  many(count: number, size: number): void {
    for (let n = 1; n <= count; n++) this.broadcast(`${n} ${"x".repeat(size)}`, { keep: "1h" });
  }
  shown(): number {
    return this.getSchedules().length;
  }
  rows(): unknown[] {
    return this.sql`SELECT seq, message FROM cf_agents_kept_messages`;
  }
}

let test: TestAgents;
let slow = makeLatch();
beforeEach(async () => {
  slow = makeLatch();
  test = await testAgents({ agents: [Room] });
});
afterEach(() => test.close());
const room = () => test.agent(Room, "a");
/** One that counts, from a place on. */
const join = (since: string | undefined, id = "c") =>
  test.connect(Room, "a", { id, ...(since === undefined ? {} : { query: { since } }) });

/** What a client that counts has received, by its frames. */
function keptOf(client: TestClient) {
  const frames = client.ofType("cf_agent_kept");
  const messages = frames.flatMap(({ message }) => (message === undefined ? [] : [message]));
  return { messages, seq: frames.at(-1)?.["seq"] as string | undefined, last: frames.at(-1) };
}

describe("a kept broadcast", () => {
  it("reaches connected clients once: numbered for those that track positions, plain for the others", async () => {
    const counts = await join("");
    const plain = await join(undefined, "p");
    await room().say("one", "1h");
    await test.settled();
    expect(keptOf(counts)).toMatchObject({ messages: ["one"], seq: "0.1" });
    expect(counts.messages).toEqual([]);
    expect(plain.messages).toEqual(["one"]);
    expect(plain.ofType("cf_agent_kept")).toEqual([]);
  });

  it("reaches a client that was away when it returns, also after its host was lost", async () => {
    const first = await join("");
    await room().say("one", "1h");
    await test.settled();
    await first.cut();
    await room().say("two", "1h");
    await room().say("not kept");
    await room().later("three");
    await test.settled();
    await test.crash();
    await test.revive();
    const second = await join(keptOf(first).seq);
    await test.settled();
    expect(keptOf(second)).toMatchObject({ messages: ["two", "three"], seq: "0.3" });
    expect(keptOf(second).last).toEqual({ type: "cf_agent_kept", seq: "0.3", end: true });
    const third = await join(keptOf(second).seq);
    await test.settled();
    expect(keptOf(third)).toMatchObject({ messages: [], seq: "0.3" });
  });

  it("does not reach a client that connects for the first time", async () => {
    await room().say("one", "1h");
    const client = await join("");
    await test.settled();
    expect(keptOf(client)).toMatchObject({ messages: [], seq: "0.1" });
  });

  it("excludes clients by a list of ids, connected or not", async () => {
    const client = await join("");
    const plain = await join(undefined, "p");
    await room().say("one", "1h", ["c", "p"]);
    await room().sayOld("two", ["p"]);
    await test.settled();
    expect(keptOf(client).messages).toEqual([]);
    expect(client.messages).toEqual(["two"]);
    expect(plain.messages).toEqual([]);
    await client.cut();
    const back = await join("0.0");
    await test.settled();
    expect(keptOf(back)).toMatchObject({ messages: [], seq: "0.1" });
  });

  it("of bytes arrives as bytes", async () => {
    const client = await join("");
    await room().sayBytes();
    await test.settled();
    expect(client.ofType("cf_agent_kept")).toMatchObject([{ seq: "0.1", data: "AQID" }]);
  });

  it("expires; clients that missed it are notified, and numbering continues", async () => {
    await room().say("one", "1 minute");
    await room().say("two", "1 minute");
    expect(await room().shown()).toBe(0);
    await test.advance("2 minutes");
    expect(await room().rows()).toEqual([{ seq: 2, message: null }]);
    const client = await join("0.1");
    await test.settled();
    expect(keptOf(client).last).toEqual({ type: "cf_agent_kept", seq: "0.2", end: true, missed: true }); // prettier-ignore
    await test.crash();
    await test.revive();
    await room().say("three", "1h");
    await test.settled();
    expect(keptOf(client).messages).toEqual(["three"]);
    expect(keptOf(client).seq).toBe("0.3");
  });

  it("is bounded by number and by size: the oldest are dropped", async () => {
    await room().many(1010, 1);
    expect(await room().rows()).toHaveLength(1000);
    await room().many(40, 60_000);
    expect((await room().rows()).length).toBeLessThan(20);
    await expect(room().many(1, 70_000)).rejects.toThrow(/a kept message is 70002 bytes/);
    await expect(room().say("x", "never")).rejects.toThrow(/not a duration/);
    await expect(room().say({} as string, "1h")).rejects.toThrow(/must be text or bytes/);
  });

  it("of a turn that a crash undoes keeps its number, so that no later one is taken for it", async () => {
    const client = await join("");
    await room().slowly();
    await test.advance(1_000);
    expect(keptOf(client).messages).toEqual(["before the step"]);
    await test.crash();
    slow.open();
    const said = room().say("another", "1h");
    await test.revive();
    await said;
    await test.advance("1 min");
    const frames = client.ofType("cf_agent_kept").filter(({ message }) => message !== undefined);
    expect(new Set(frames.map(({ seq }) => seq)).size).toBe(3);
    expect(keptOf(client).messages.toSorted()).toEqual([
      "another",
      "before the step",
      "before the step",
    ]);
  });

  it("in a transaction that is rolled back is not sent, and its number is the next one's", async () => {
    const counts = await join("");
    const plain = await join(undefined, "p");
    await room().sayRolledBack("one", "two");
    await room().say("last", "1h");
    await test.settled();
    expect(keptOf(counts)).toMatchObject({ messages: ["after", "last"], seq: "0.2" });
    expect(plain.messages).toEqual(["after", "last"]);
    expect(await room().rows()).toEqual([
      { seq: 1, message: "after" },
      { seq: 2, message: "last" },
    ]);
  });

  it("of a destroyed agent is invisible to its clients, which receive what the new agent kept", async () => {
    await room().say("old", "1h");
    await room().destroy();
    await room().say("new", "1h");
    const client = await join("0.1");
    await test.settled();
    expect(keptOf(client).messages).toEqual(["new"]);
  });
});

it("after its host is lost between a commit and its frames, a client that asks misses nothing", async () => {
  const client = await join("");
  await room().say("one", "1h");
  await test.settled();
  const crashed = test.crashAt("after commit", Room, "a");
  const said = room().say("two", "1h");
  said.catch(() => undefined);
  await crashed;
  await test.revive();
  await test.settled();
  await said.catch(() => undefined);
  // Its place is behind what the next host says.
  await room().shown();
  await test.settled();
  const { seq } = client
    .ofType("cf_agent_kept")
    .findLast((frame) => frame["message"] !== undefined)!;
  client.send({ type: "cf_agent_kept", since: seq });
  await test.settled();
  expect(keptOf(client).messages.slice(0, 2)).toEqual(["one", "two"]);
});

it("an app's own `since` is not taken for a position", async () => {
  const client = await join("2024-01-01");
  await room().say("one", "1h");
  await test.settled();
  expect(client.messages).toEqual(["one"]);
});
