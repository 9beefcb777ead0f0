/** The memory adapters against the rules of the ports. */
import { Effect } from "effect";
import { describe, expect, it } from "vitest";
import { Journal } from "../../core/journal/Journal.ts";
import { Time } from "../../core/time/Time.ts";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { memoryLayer } from "../../services/memory/memoryLayer.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { message, patient } from "./Backend.ts";
import { deliveryLogRules } from "./deliveryLogRules.ts";
import { busRules } from "./busRules.ts";
import { feedRules } from "./feedRules.ts";
import { inboxRules } from "./inboxRules.ts";
import { journalRules } from "./journalRules.ts";
import { leaseRules } from "./leaseRules.ts";
import { memoryBackend } from "./memoryBackend.ts";
import { storeRules } from "./storeRules.ts";
import { timeRules } from "./timeRules.ts";
import { timerRules } from "./timerRules.ts";

describe("memory", () => {
  journalRules(memoryBackend);
  feedRules(memoryBackend);
  inboxRules(memoryBackend);
  leaseRules(memoryBackend);
  storeRules(memoryBackend);
  deliveryLogRules(memoryBackend);
  busRules(memoryBackend);
  timerRules(memoryBackend);
  const time = new VirtualTime();
  timeRules(time, (ms) => time.advance(ms));
});

describe("virtual time", () => {
  it("runs promise callbacks between two timers, and timers that they set within the span", async () => {
    const time = new VirtualTime();
    const seen: string[] = [];
    const sleep = (ms: number): Promise<void> =>
      new Promise((resolve) => void time.after(ms, resolve));
    void (async () => {
      for (let n = 1; n <= 3; n++) {
        await sleep(10);
        seen.push(`loop ${time.monotonicMs()}`);
      }
    })();
    time.after(15, () => seen.push("timer 15"));
    await time.advance(25);
    expect(seen).toEqual(["loop 10", "timer 15", "loop 20"]);
    expect(time.monotonicMs()).toBe(25);
    expect(time.pending).toBe(1);
  });

  it("determines the sequence of ids and random numbers by the seed", () => {
    const draw = (seed: number): unknown[] => {
      const time = new VirtualTime({ seed });
      return [time.id(), time.random(), time.id(), time.random()];
    };
    expect(draw(7)).toEqual(draw(7));
    expect(draw(7)).not.toEqual(draw(8));
  });

  it("moves neither timers nor the steady clock when the wall clock jumps", async () => {
    const time = new VirtualTime({ startMs: 1_000 });
    let ran = false;
    time.after(100, () => (ran = true));
    time.jump(-3_600_000);
    expect(time.nowMs()).toBe(1_000 - 3_600_000);
    await time.advance(99);
    expect(ran).toBe(false);
    await time.advance(1);
    expect(ran).toBe(true);
  });
});

describe("the memory broker", () => {
  const append = (layer: ReturnType<typeof memoryLayer>, expectedSeq: number) =>
    Effect.runPromise(
      Effect.gen(function* () {
        const journal = yield* Journal;
        const options = { expectedSeq: expectedSeq as Sequence, signal: patient() };
        return yield* Effect.promise(() =>
          journal.append(agentId("A", "x"), message("1"), options),
        );
      }).pipe(Effect.provide(layer)),
    );

  it("is shared by several processes, each with all ports as a layer", async () => {
    const time = new VirtualTime();
    const broker = new MemoryBroker({ time });
    const [one, two] = [memoryLayer(broker.connect()), memoryLayer(broker.connect())];
    expect((await append(one, 0))._tag).toBe("Stored");
    expect((await append(two, 0))._tag).toBe("Conflict");
    expect(await Effect.runPromise(Effect.provide(Time, one))).toBe(time);
  });

  it("cuts one process off while the others continue", async () => {
    const time = new VirtualTime();
    const broker = new MemoryBroker({ time });
    const [cut, other] = [broker.connect(), broker.connect()];
    cut.disconnect();
    const waiting = append(memoryLayer(cut), 0);
    expect((await append(memoryLayer(other), 0))._tag).toBe("Stored");
    cut.reconnect();
    await time.advance(1_000);
    expect((await waiting)._tag).toBe("Conflict");
  });

  it("shows every operation to the interceptor, which can refuse it", async () => {
    const time = new VirtualTime();
    const broker = new MemoryBroker({ time });
    const seen: string[] = [];
    broker.intercept = ({ kind, connection, key }) => {
      seen.push(`${connection} ${kind} ${key}`);
      if (seen.length === 1) throw new Error("lost on the way");
    };
    const waiting = append(memoryLayer(broker.connect("host-1")), 0);
    await time.advance(1_000);
    expect((await waiting)._tag).toBe("Stored");
    expect(seen).toEqual(["host-1 append A/x", "host-1 append A/x"]);
  });
});
