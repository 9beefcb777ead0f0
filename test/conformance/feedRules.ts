/** The contract of `core/journal/JournalFeed`, for any adapter. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FeedFilter } from "../../core/journal/JournalFeed.ts";
import { addressKey, agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { LARGE_BYTES, message, newAgent, patient, type Backend, type Ports } from "./Backend.ts";

const NOTHING = 0 as Sequence;

export function feedRules(makeBackend: () => Promise<Backend>): void {
  describe("the journal's feed", () => {
    let backend: Backend;
    let a: Ports;
    let b: Ports;
    beforeAll(async () => {
      backend = await makeBackend();
      [a, b] = [await backend.open(), await backend.open()];
    });
    afterAll(() => backend.close());

    const append = async (id: AgentId, data: Uint8Array, expectedSeq: Sequence) => {
      const result = await a.journal.append(id, data, { expectedSeq, signal: patient() });
      return result._tag === "Stored" ? result.seq : undefined;
    };
    const follow = async (filter: FeedFilter) => {
      const seen: Array<{ readonly key: string; readonly seq: number; readonly bytes: Buffer }> =
        [];
      const failures: unknown[] = [];
      const ended = new AbortController();
      await b.feed.follow(
        filter,
        async (id, { seq, data }) => {
          await Promise.resolve();
          seen.push({ key: addressKey(id), seq, bytes: Buffer.from(data) });
        },
        { signal: ended.signal, onFailed: (error) => failures.push(error) },
      );
      return { seen, failures, end: () => ended.abort() };
    };
    const until = (seen: readonly unknown[], count: number) =>
      backend.until(`${count} events`, () =>
        seen.length >= count
          ? { done: true, value: true }
          : { done: false, saw: seen.map((event) => JSON.stringify(event).slice(0, 80)) },
      );

    it("delivers what is stored from then on, in order, byte for byte, and nothing earlier", async () => {
      const id = newAgent("fed");
      const before = (await append(id, message("before"), NOTHING))!;
      const feed = await follow({ className: id.class, name: id.name });
      const large = message("large", LARGE_BYTES);
      const second = (await append(id, message("second"), before))!;
      const third = (await append(id, large, second))!;
      await until(feed.seen, 2);
      expect(feed.seen.map(({ key, seq }) => [key, seq])).toEqual([
        [addressKey(id), second],
        [addressKey(id), third],
      ]);
      expect(Buffer.compare(feed.seen[0]!.bytes, message("second"))).toBe(0);
      expect(Buffer.compare(feed.seen[1]!.bytes, large)).toBe(0);
      feed.end();
    });

    it("goes on where a large event was trimmed while its follower was slow", async () => {
      const id = newAgent("slow");
      const seen: string[] = [];
      const failures: unknown[] = [];
      const ended = new AbortController();
      /** By the number of the event that the follower is slow with. */
      const pauses = new Map<number, Promise<void>>();
      const pauseAt = (count: number): (() => void) => {
        let goOn = (): void => undefined;
        pauses.set(count, new Promise((resolve) => (goOn = resolve)));
        return goOn;
      };
      const [goOnFirst, goOn] = [pauseAt(1), pauseAt(3)];
      await b.feed.follow(
        { className: id.class },
        async ({ name }, { seq }) => {
          await pauses.get(seen.push(name === id.name ? String(seq) : name));
        },
        { signal: ended.signal, onFailed: (error) => failures.push(error) },
      );
      let last = (await append(id, message("first"), NOTHING))!;
      await until(seen, 1);
      // What is stored meanwhile is read at once: with the third event the large one is in hand.
      for (const bytes of [0, 0, LARGE_BYTES, 0])
        last = (await append(id, message("x", bytes), last))!;
      goOnFirst();
      await until(seen, 3);
      await a.journal.trim(id, last);
      goOn();
      await append(agentId(id.class, "later"), message("later"), NOTHING);
      await backend.until("the event of another agent", () => seen.includes("later"));
      expect(failures).toEqual([]);
      ended.abort();
    });

    it("delivers the events of one agent, of a class or of all", async () => {
      const [one, two] = [agentId("FedClass", "ü x"), agentId("FedClass", "y")];
      const other = agentId("FedClassOther", "ü x");
      const feeds = [
        await follow({ className: "FedClass", name: "ü x" }),
        await follow({ className: "FedClass" }),
        await follow({}),
      ] as const;
      for (const id of [two, other, one]) await append(id, message("event"), NOTHING);
      await until(feeds[2].seen, 3);
      await until(feeds[0].seen, 1);
      await until(feeds[1].seen, 2);
      // Between agents there is no order (rule 1).
      const keys = feeds.map(({ seen }) => seen.map(({ key }) => key).toSorted());
      expect(keys).toEqual([
        ["FedClass/ü x"],
        ["FedClass/y", "FedClass/ü x"],
        ["FedClass/y", "FedClass/ü x", "FedClassOther/ü x"],
      ]);
      for (const feed of feeds) feed.end();
    });

    it("delivers no refused event", async () => {
      const id = newAgent("fenced");
      const feed = await follow({ className: id.class, name: id.name });
      const first = (await append(id, message("first"), NOTHING))!;
      expect(await append(id, message("stale"), NOTHING)).toBeUndefined();
      const second = await append(id, message("second"), first);
      await until(feed.seen, 2);
      expect(feed.seen.map(({ seq }) => seq)).toEqual([first, second]);
      feed.end();
    });

    it("delivers nothing after it has ended, and reports a failing handler", async () => {
      const id = newAgent("ended");
      const feed = await follow({ className: id.class, name: id.name });
      const failing: unknown[] = [];
      await b.feed.follow({ className: id.class, name: id.name }, () => Promise.reject("mine"), {
        signal: patient(),
        onFailed: (error) => failing.push(error),
      });
      feed.end();
      const witness = await follow({ className: id.class, name: id.name });
      await append(id, message("late"), NOTHING);
      await until(witness.seen, 1);
      await until(failing, 1);
      expect(feed.seen).toEqual([]);
      expect(failing).toEqual(["mine"]);
      witness.end();
    });

    it("loses and repeats no event when the broker goes away and returns", async () => {
      const id = newAgent("healed");
      const feed = await follow({ className: id.class, name: id.name });
      const first = (await append(id, message("1"), NOTHING))!;
      await until(feed.seen, 1);
      await backend.kill();
      await backend.until("the loss", () => !a.bus.connected() && !b.bus.connected());
      await backend.restart();
      await backend.until("the connections", () => a.bus.connected() && b.bus.connected());
      const second = (await append(id, message("2"), first))!;
      const third = (await append(id, message("3"), second))!;
      await until(feed.seen, 3);
      expect(feed.seen.map(({ seq }) => seq)).toEqual([first, second, third]);
      expect(feed.failures).toEqual([]);
      feed.end();
    });
  });
}
