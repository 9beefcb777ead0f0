/** Rounds of a watch of leases, message by message: what becomes of keys that a list lacks. */
import { headers, type Msg } from "@nats-io/nats-core";
import { afterEach, beforeEach, expect, test } from "vitest";
import { NotPermitted } from "../../core/bus/Bus.ts";
import type { LeaseChange } from "../../core/lease/Leases.ts";
import { LeaseWatch } from "../../services/nats/LeaseWatch.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { NANOS_PER_MS } from "../../services/nats/layout/streamConfigs.ts";
import { pollUntil } from "../kit/poll.ts";

const TTL_MS = 1_000;
const PREFIX = "$KV.leases.";
const BUCKET = { stream: "KV_leases", prefix: PREFIX, filter: `${PREFIX}>`, keys: "" };
/** By the stream's clock, any. */
const START_MS = 1_000_000;

interface Sent {
  readonly key: string;
  readonly seq: number;
  /** Milliseconds of the stream, after `START_MS`. */
  readonly atMs: number;
  /** Messages behind it. */
  readonly behind: number;
  /** A tombstone's. */
  readonly operation?: string;
}

let over: AbortController;
beforeEach(() => (over = new AbortController()));
afterEach(() => over.abort());

/** A watch and what it hears of a broker that the test plays. */
function watchOf() {
  const told: LeaseChange[] = [];
  let receive: ((error: null, message: Msg) => void) | undefined;
  let changed: (up: boolean) => void = () => undefined;
  let listed = 0;
  let rounds = 0;
  let sent = 0;
  let refuses = false;
  const nats = {
    leaseTtlMs: TTL_MS,
    connection: {
      newInbox: () => "inbox",
      connected: () => true,
      onChange: (f: typeof changed) => {
        changed = f;
        return () => undefined;
      },
      log: () => undefined,
      client: {
        subscribe: (_: string, { callback }: { callback: typeof receive }) => {
          receive = callback;
          return { unsubscribe: () => undefined };
        },
      },
    },
    api: {
      call: () => {
        rounds++;
        sent = 0;
        if (refuses) return Promise.reject(new NotPermitted({ message: "not permitted" }));
        return Promise.resolve({ name: "c", num_pending: listed, delivered: { consumer_seq: 0 } });
      },
    },
  } as object as NatsShape;
  const watch = new LeaseWatch(nats, BUCKET, (c) => void told.push(c), over.signal);
  let begun = false;
  return {
    /** Whether the watch has reported its first list. */
    begun: () => begun,
    start: () => watch.start(),
    /** Whether the login may not watch. */
    refuse: (now: boolean): void => void (refuses = now),
    releases: () => told.map(({ released }) => released),
    told: () => told.map(({ key, value }) => `${key} ${value ?? "gone"}`),
    /** Begins a round whose list has so many messages. */
    round: async (count: number): Promise<void> => {
      listed = count;
      const before = rounds;
      if (before === 0) void watch.start().then(() => (begun = true));
      else changed(false);
      await pollUntil("a new round", () => rounds > before);
      // What the round makes of the consumer that it was given.
      await new Promise((resolve) => setImmediate(resolve));
    },
    /** A heartbeat; `last` is the number of the last message that was sent. */
    beat: (last: number): void => {
      const block = headers(100, "Idle Heartbeat");
      block.set("Nats-Last-Consumer", `${last}`);
      receive!(null, { subject: "inbox", headers: block } as object as Msg);
    },
    rounds: () => rounds,
    send: ({ key, seq, atMs, behind, operation }: Sent): void => {
      const block = headers();
      if (operation !== undefined) block.set("KV-Operation", operation);
      const nanos = `${(START_MS + atMs) * NANOS_PER_MS}`;
      receive!(null, {
        subject: PREFIX + key,
        reply: `$JS.ACK.KV_leases.c.1.${seq}.${++sent}.${nanos}.${behind}`,
        headers: block,
        string: () => "a",
      } as object as Msg);
    },
  };
}

/** A watch whose first list has had the leases of two shards. */
async function watchOfTwo() {
  const watch = watchOf();
  await watch.round(2);
  watch.send({ key: "shard.0", seq: 1, atMs: 0, behind: 1 });
  watch.send({ key: "shard.1", seq: 2, atMs: 0, behind: 0 });
  return watch;
}

test("a lease that is renewed while a round's list is sent is not lost", async () => {
  const { round, send, told } = await watchOfTwo();
  await round(2);
  // Each is renewed: the first one's old message is not sent any more, the second one's was.
  send({ key: "shard.1", seq: 2, atMs: 0, behind: 2 });
  send({ key: "shard.1", seq: 3, atMs: 100, behind: 1 });
  send({ key: "shard.0", seq: 4, atMs: 100, behind: 0 });
  expect(told()).toEqual(["shard.0 a", "shard.1 a"]);
});

test("a lease that ended between two rounds is gone when the list is complete", async () => {
  const { round, send, told } = await watchOfTwo();
  await round(1);
  send({ key: "shard.1", seq: 3, atMs: 100, behind: 0 });
  expect(told()).toEqual(["shard.0 a", "shard.1 a", "shard.0 gone"]);
  await round(0);
  expect(told().at(-1)).toBe("shard.1 gone");
});

test("a lease that ended is gone even if others were renewed while the list was sent", async () => {
  const { round, send, told } = await watchOfTwo();
  await round(1);
  send({ key: "shard.1", seq: 2, atMs: 0, behind: 1 });
  send({ key: "shard.1", seq: 3, atMs: 100, behind: 0 });
  expect(told()).toEqual(["shard.0 a", "shard.1 a", "shard.0 gone"]);
});

test("a lease kept by a lagging replica is as old as its message, in whichever round it is listed", async () => {
  const { round, send, told } = watchOf();
  await round(2);
  send({ key: "shard.0", seq: 1, atMs: 0, behind: 1 });
  send({ key: "shard.1", seq: 2, atMs: 1_900, behind: 0 });
  await round(2);
  send({ key: "shard.0", seq: 1, atMs: 0, behind: 1 });
  send({ key: "shard.1", seq: 3, atMs: 2_100, behind: 0 });
  expect(told()).toEqual(["shard.0 a", "shard.1 a", "shard.0 gone"]);
});

test("a key that no release writes is ignored, and the list is complete without it", async () => {
  const { round, send, told } = await watchOfTwo();
  await round(2);
  send({ key: "shard.a%b", seq: 3, atMs: 100, behind: 1 });
  send({ key: "shard.1", seq: 4, atMs: 100, behind: 0 });
  expect(told()).toEqual(["shard.0 a", "shard.1 a", "shard.0 gone"]);
});

test("a released lease is reported as released, also when a host of an older release did it", async () => {
  const { round, send, told, releases } = watchOf();
  await round(0);
  send({ key: "shard.0", seq: 1, atMs: 0, behind: 0 });
  send({ key: "shard.0", seq: 2, atMs: 10, behind: 0, operation: "PURGE" });
  send({ key: "shard.0", seq: 3, atMs: 20, behind: 0 });
  send({ key: "shard.0", seq: 4, atMs: 30, behind: 0, operation: "DEL" });
  expect(told()).toEqual(["shard.0 a", "shard.0 gone", "shard.0 a", "shard.0 gone"]);
  expect(releases()).toEqual([undefined, true, undefined, true]);
});

test("a list of which a lease expired before it was sent is complete at the next heartbeat", async () => {
  const { round, send, beat, told, begun } = watchOf();
  await round(2);
  send({ key: "shard.1", seq: 2, atMs: 0, behind: 0 });
  await Promise.resolve();
  expect(begun()).toBe(false);
  beat(1);
  await pollUntil("the first list", begun);
  await round(2);
  send({ key: "shard.2", seq: 3, atMs: 0, behind: 0 });
  beat(1);
  expect(told()).toEqual(["shard.1 a", "shard.2 a", "shard.1 gone"]);
});

test("a key is gone at the next heartbeat if what was behind the list has expired", async () => {
  const { round, send, beat, told } = await watchOfTwo();
  await round(1);
  send({ key: "shard.1", seq: 2, atMs: 0, behind: 1 });
  expect(told()).toEqual(["shard.0 a", "shard.1 a"]);
  beat(1);
  expect(told()).toEqual(["shard.0 a", "shard.1 a", "shard.0 gone"]);
});

test("a message that no later one follows is missed by the next heartbeat", async () => {
  const { round, send, beat, rounds } = watchOf();
  await round(1);
  send({ key: "shard.0", seq: 1, atMs: 0, behind: 0 });
  beat(1);
  expect(rounds()).toBe(1);
  beat(2);
  await pollUntil("another round", () => rounds() === 2);
});

test("a login that may not watch is refused at once", async () => {
  const { start, refuse, rounds } = watchOf();
  refuse(true);
  await expect(start()).rejects.toBeInstanceOf(NotPermitted);
  expect(rounds()).toBe(1);
});

test("a watch that has begun goes on after a reload that withheld the right for a while", async () => {
  const { round, refuse, rounds, send, told } = await watchOfTwo();
  refuse(true);
  await round(1);
  refuse(false);
  await pollUntil("a round that is not refused", () => rounds() === 3);
  await new Promise((resolve) => setImmediate(resolve));
  send({ key: "shard.1", seq: 2, atMs: 0, behind: 0 });
  expect(told()).toEqual(["shard.0 a", "shard.1 a", "shard.0 gone"]);
});
