/** A job from the dead letters that runs again: it is the same work, under the same keys. */
import { beforeEach, expect, it } from "vitest";
import { Agent } from "agents";
import { testAgents } from "agents/testing";
import { makeLatch, type Latch } from "../system/kit.ts";

/** What happened to each idempotency key, in order. */
let charged: string[] = [];
let refunded: string[] = [];
let attempts = 0;
let isClosed = true;
let latch: Latch | undefined;

class Shop extends Agent<{}, { sold: number }> {
  static override options = { retry: { maxAttempts: 1 } };
  override initialState = { sold: 0 };

  async order(): Promise<void> {
    await this.queue("sell", "lamp", { id: "order 7", retry: { maxAttempts: 2, baseDelayMs: 5 } });
  }
  async later(): Promise<void> {
    await this.schedule(60, "sell", "lamp", { retry: { maxAttempts: 2, baseDelayMs: 5 } });
  }
  async orderBehind(): Promise<void> {
    await this.queue("wait");
    await this.order();
  }
  async wait(): Promise<void> {
    await latch?.opened;
  }
  async undoable(): Promise<void> {
    await this.queue("sellOrRefund", "lamp");
  }

  async sell(): Promise<void> {
    attempts++;
    await this.step("charge", ({ key }) => void charged.push(key));
    if (isClosed) throw new Error("closed");
    this.setState({ sold: this.state.sold + 1 });
  }
  async sellOrRefund(): Promise<void> {
    await this.step("charge", ({ key }) => void charged.push(key), {
      undo: (_, { key }) => void refunded.push(key),
    });
    if (isClosed) throw new Error("closed");
  }
}

beforeEach(() => {
  charged = [];
  refunded = [];
  attempts = 0;
  isClosed = true;
  latch = undefined;
});

const start = async () => {
  const test = await testAgents({ agents: [Shop] });
  return { test, shop: test.agent(Shop, "a"), [Symbol.asyncDispose]: () => test.close() };
};

it("a redriven item has its id, its attempts and the idempotency keys of its steps", async () => {
  await using at = await start();
  await at.shop.order();
  await at.test.settled();
  expect(attempts).toBe(2);
  // It fails once more, with all its attempts.
  await at.test.redrive((await at.shop.deadLetters())[0]!);
  expect(attempts).toBe(4);
  isClosed = false;
  await at.test.redrive((await at.shop.deadLetters())[0]!);
  expect(await at.shop.state()).toEqual({ sold: 1 });
  expect(charged.length).toBeGreaterThan(1);
  expect(new Set(charged).size, charged.join()).toBe(1);
});

it("so does the redriven run of a schedule", async () => {
  await using at = await start();
  await at.shop.later();
  await at.test.advance("2m");
  expect(attempts).toBe(2);
  await at.test.redrive((await at.shop.deadLetters())[0]!);
  expect(attempts).toBe(4);
  isClosed = false;
  await at.test.redrive((await at.shop.deadLetters())[0]!);
  expect(await at.shop.state()).toEqual({ sold: 1 });
  expect(new Set(charged).size, charged.join()).toBe(1);
});

it("an item whose steps were undone has others", async () => {
  await using at = await start();
  await at.shop.undoable();
  await at.test.settled();
  expect(refunded).toHaveLength(1);
  isClosed = false;
  await at.test.redrive((await at.shop.deadLetters())[0]!);
  expect(charged).toHaveLength(2);
  expect(new Set(charged).size).toBe(2);
});

it("a redriven item does not replace a newer one that waits under its id", async () => {
  await using at = await start();
  await at.shop.order();
  await at.test.settled();
  const [letter] = await at.shop.deadLetters();
  isClosed = false;
  latch = makeLatch();
  await at.shop.orderBehind();
  const redriven = at.test.redrive(letter!);
  latch.open();
  await redriven;
  expect(await at.shop.state()).toEqual({ sold: 2 });
  expect(new Set(charged).size).toBe(2);
});
