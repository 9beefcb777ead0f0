/** The order in which the events of a Durable Object begin, in virtual time. */
import { describe, expect, it } from "vitest";
import { EventOrder } from "../../core/durableObject/EventOrder.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

function setUp() {
  const time = new VirtualTime();
  const events = new EventOrder(time);
  const log: string[] = [];
  const sleep = (ms: number) => new Promise<void>((resolve) => time.after(ms, resolve));
  /** An event with two calls that answer at once, and a wait for something outside between. */
  const event = (name: string, waitMs?: number) =>
    events.run(async () => {
      log.push(`${name} begins`);
      await Promise.resolve();
      await Promise.resolve();
      if (waitMs !== undefined) await sleep(waitMs);
      log.push(`${name} ends`);
    });
  return { time, events, log, event };
}

describe("events of an object", () => {
  it("do not interleave between calls that answer at once", async () => {
    const { time, log, event } = setUp();
    const all = [event("a"), event("b"), event("c")];
    await time.advance(1);
    await Promise.all(all);
    expect(log).toEqual(["a", "b", "c"].flatMap((name) => [`${name} begins`, `${name} ends`]));
  });

  it("begin while another awaits something outside", async () => {
    const { time, log, event } = setUp();
    const all = [event("a", 100), event("b")];
    await time.advance(200);
    await Promise.all(all);
    expect(log).toEqual(["a begins", "b begins", "b ends", "a ends"]);
  });

  it("wait while input is blocked, and then begin in order", async () => {
    const { time, events, log, event } = setUp();
    const [first, second] = [events.hold(), events.hold()];
    const all = [event("a"), event("b")];
    await time.advance(10);
    first();
    await time.advance(10);
    expect(log).toEqual([]);
    second();
    await time.advance(10);
    await Promise.all(all);
    expect(log).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  });

  it("begin after one that throws, and only that one rejects", async () => {
    const { time, events, log, event } = setUp();
    const failed = events.run(() => {
      throw new Error("mine");
    });
    const next = event("a");
    await expect(failed).rejects.toThrow("mine");
    await time.advance(1);
    await next;
    expect(log).toEqual(["a begins", "a ends"]);
  });
});
