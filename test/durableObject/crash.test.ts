/** What remains of Durable Objects when their host is lost: in memory, in virtual time. */
import { expect, test } from "vitest";
import { testAgents } from "agents/testing";
import { Counter, Ledger, Live, Room, Waker } from "./objectsModule.ts";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";
import objects from "./objectsModule.ts";

interface Env {
  readonly Counter: ObjectNamespace<Counter>;
  readonly Waker: ObjectNamespace<Waker>;
  readonly Ledger: ObjectNamespace<Ledger>;
}
const SECRET = "It's a Secret to Everybody";

async function start() {
  const { webhooks } = objects;
  const classes = [Counter, Ledger, Live, Room, Waker];
  const installation = await testAgents({ agents: classes as never, webhooks, env: { SECRET } });
  return Object.assign(installation, { objects: installation.env as unknown as Env });
}

test("what an object has answered is stored", async () => {
  await using t = await start();
  const counter = t.agent(Counter as never, "a").stub as unknown as Counter;
  expect([await counter.increment(), await counter.increment()]).toEqual([1, 2]);
  await t.crash();
  await t.revive();
  expect(await counter.increment()).toBe(3);
});

test.each(["before commit", "after commit"] as const)(
  "a webhook whose host is lost %s counts once",
  async (point) => {
    await using t = await start();
    const payload = JSON.stringify({ account: "a", amount: 5 });
    const lost = t.crashAt(point, Ledger, "a");
    const answer = t.webhook("/ledger", payload, await t.sign.github(payload, SECRET));
    await lost;
    await t.revive();
    await answer;
    await t.settled();
    const ledger = t.agent(Ledger as never, "a").stub as unknown as Ledger;
    expect(await ledger.sum()).toBe(5);
  },
);

test("an alarm runs at its time on the next host", async () => {
  await using t = await start();
  const waker = t.agent(Waker as never, "a").stub as unknown as Waker;
  await waker.arm(3_600_000);
  await t.crash();
  await t.revive();
  await t.advance("30 minutes");
  expect((await waker.runs()).runs).toEqual([]);
  await t.advance("31 minutes");
  expect((await waker.runs()).runs).toEqual([{ isRetry: false, retryCount: 0, alarm: null }]);
});

test("an alarm that fails is retried six times, and then becomes a dead letter", async () => {
  await using t = await start();
  const waker = t.agent(Waker as never, "a").stub as unknown as Waker;
  await waker.arm(1, Array<string>(7).fill("fail"));
  await t.advance("10 minutes");
  expect((await waker.runs()).runs).toEqual(
    Array.from({ length: 7 }, (_, n) => ({ isRetry: n > 0, retryCount: n, alarm: null })),
  );
  expect(await t.deadLetters()).toMatchObject([{ agent: { name: "a" } }]);
});

test("a hibernating socket keeps its attachment and its automatic responses on the next host", async () => {
  await using t = await start();
  const client = await t.connect(Room as never, "a", { query: { name: "ada", tag: "x" } });
  expect(client.messages).toEqual(["welcome ada"]);
  await t.crash();
  await t.revive();
  client.send("who");
  client.send("ping");
  client.send("tags");
  await t.settled();
  expect(client.messages.slice(1)).toEqual(["ada (again)", "pong", ["x"]]);
});

test("a hibernating socket is closed when its object was working on its host that is lost", async () => {
  await using t = await start();
  const open = (name: string) => t.connect(Room as never, name, { query: { name: "ada" } });
  const [working, resting] = [await open("a"), await open("b")];
  working.send("work");
  await t.advance("1 second");
  const late = await open("a");
  await t.advance("1 second");
  await t.crash();
  await t.revive();
  await t.advance("10 seconds");
  const closed = { code: 1012, reason: "The object was restarted" };
  expect([working.closed, late.closed]).toMatchObject([closed, closed]);
  resting.send("who");
  await t.settled();
  expect([resting.closed, resting.messages.at(-1)]).toEqual([undefined, "ada (again)"]);
});

test("a socket with listeners is closed when its object moves to the next host", async () => {
  await using t = await start();
  const client = await t.connect(Live as never, "a");
  client.send("x");
  await t.settled();
  expect(client.messages).toEqual(["1 x"]);
  await t.crash();
  await t.revive();
  client.send("y");
  await t.settled();
  expect(client.closed).toMatchObject({ code: 1012 });
});
