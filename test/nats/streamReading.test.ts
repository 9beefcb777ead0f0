/** The rules of one reading, with answers that no server gives on demand. */
import type { Msg } from "@nats-io/nats-core";
import { expect, test } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { ReplyInbox, Waiter } from "../../services/nats/client/ReplyInbox.ts";
import { StreamReading } from "../../services/nats/client/StreamReading.ts";

interface Asked {
  readonly query: { readonly seq: number; readonly batch: number; readonly max_bytes: number };
  readonly waiter: Waiter;
  forgotten: boolean;
}

function scripted(isUp = () => true) {
  const asked: Asked[] = [];
  const send = (_subject: string, data: Uint8Array, waiter: Waiter): (() => void) => {
    const one: Asked = {
      query: JSON.parse(Buffer.from(data).toString()),
      waiter,
      forgotten: false,
    };
    asked.push(one);
    if (!isUp()) waiter.lost("notSent");
    return () => (one.forgotten = true);
  };
  return { asked, inbox: { send } as unknown as ReplyInbox };
}

function message(block: string, data = ""): Msg {
  const bytes = Buffer.from(`NATS/1.0${block}\r\n\r\n${data}`);
  const length = bytes.length - data.length;
  return {
    subject: "answers",
    data: bytes.subarray(length),
    size: () => "answers".length + bytes.length,
  } as unknown as Msg;
}
const stored = (seq: number, before: number, data = ""): Msg =>
  message(`\r\nNats-Sequence: ${seq}\r\nNats-Last-Sequence: ${before}`, data);
const end = (left: number): Msg => message(` 204 EOB\r\nNats-Num-Pending: ${left}`);
const seqs = async (reading: StreamReading): Promise<number[]> =>
  (await reading.take()).map(({ seq }) => seq);
const range = { fromSeq: 3, toSeq: 1_000_000 };

test("arrived messages are delivered while the rest is in flight, and the next batch is requested when one ends", async () => {
  const { asked, inbox } = scripted();
  const reading = new StreamReading(inbox, "S", "s", range);
  const first = seqs(reading);
  expect(asked[0]!.waiter.reply(stored(5, 0))).toBe(false);
  expect(asked[0]!.waiter.reply(stored(9, 5))).toBe(false);
  expect(await first).toEqual([5, 9]);
  expect(asked).toHaveLength(1);
  asked[0]!.waiter.reply(stored(12, 9));
  expect(asked[0]!.waiter.reply(end(4))).toBe(true);
  expect(asked.map(({ query }) => query.seq)).toEqual([3, 13]);
  expect(await seqs(reading)).toEqual([12]);
  expect(asked[1]!.waiter.reply(end(0))).toBe(true);
  expect(await seqs(reading)).toEqual([]);
  expect(reading.next).toBe(13);
  expect(asked).toHaveLength(2);
});

test("a message that was lost ends its batch, and is requested again", async () => {
  const { asked, inbox } = scripted();
  const reading = new StreamReading(inbox, "S", "s", range);
  asked[0]!.waiter.reply(stored(5, 0));
  expect(asked[0]!.waiter.reply(stored(9, 7))).toBe(true);
  expect(await seqs(reading)).toEqual([5]);
  expect(asked.map(({ query }) => query.seq)).toEqual([3, 6]);
  // Its first may follow whatever was asked for before.
  expect(asked[1]!.waiter.reply(stored(7, 5))).toBe(false);
  expect(await seqs(reading)).toEqual([7]);
});

test("a reader that consumes nothing causes no further requests", async () => {
  const { asked, inbox } = scripted();
  const reading = new StreamReading(inbox, "S", "s", range);
  const half = "x".repeat(asked[0]!.query.max_bytes / 2);
  asked[0]!.waiter.reply(stored(5, 0, half));
  asked[0]!.waiter.reply(end(9));
  asked[1]!.waiter.reply(stored(6, 0, half));
  asked[1]!.waiter.reply(end(8));
  expect(asked).toHaveLength(2);
  expect(await seqs(reading)).toEqual([5, 6]);
  expect(asked.map(({ query }) => query.seq)).toEqual([3, 6, 7]);
});

test("a read requests at most its range, and drops what exceeds it", async () => {
  const { asked, inbox } = scripted();
  const reading = new StreamReading(inbox, "S", "s", { fromSeq: 3, toSeq: 4 });
  expect(asked[0]!.query.batch).toBe(2);
  asked[0]!.waiter.reply(stored(4, 0));
  asked[0]!.waiter.reply(stored(9, 4));
  asked[0]!.waiter.reply(end(3));
  expect(await seqs(reading)).toEqual([4]);
  expect(await seqs(reading)).toEqual([]);
  expect(asked).toHaveLength(1);
});

test("when the broker disappears, received messages are delivered before the error, and the error comes at once without any", async () => {
  let isUp = true;
  const { asked, inbox } = scripted(() => isUp);
  const reading = new StreamReading(inbox, "S", "s", range);
  asked[0]!.waiter.reply(stored(5, 0));
  isUp = false;
  asked[0]!.waiter.lost("disconnected");
  expect(await seqs(reading)).toEqual([5]);
  await expect(reading.take()).rejects.toThrow(BrokerUnavailable);
  await expect(new StreamReading(inbox, "S", "s", range).take()).rejects.toThrow(/notSent/);
});

test("an abandoned read cancels its request", () => {
  const { asked, inbox } = scripted();
  new StreamReading(inbox, "S", "s", range).cancel();
  expect(asked[0]!.forgotten).toBe(true);
});
