/** When `GroupPublisher` sends singly or in a batch. What it stores: `natsGroups.test.ts`. */
import { expect, test } from "vitest";
import type { Sequence } from "../../schemas/Address.ts";
import type { AckPublisher, PublishOutcome } from "../../services/nats/client/AckPublisher.ts";
import { GroupPublisher } from "../../services/nats/client/GroupPublisher.ts";

function make(streams?: number) {
  const out: Array<{ readonly what: string; readonly end: (outcome: PublishOutcome) => void }> = [];
  let parts = 0;
  let stored = 0;
  const publisher = {
    publish: (_subject: string, _data: Uint8Array, options: { readonly headers?: unknown } = {}) =>
      new Promise<PublishOutcome>((end) => {
        const what = options.headers === undefined ? "alone" : `batch of ${parts + 1}`;
        parts = 0;
        out.push({ what, end });
      }),
    send: () => void parts++,
    fits: () => true,
  } as unknown as AckPublisher;
  const group = new GroupPublisher(publisher, { on: true }, streams);
  let given = 0;
  const outcomes: PublishOutcome[] = [];
  const give = async (count: number, options?: { readonly signal: AbortSignal }): Promise<void> => {
    for (let n = 0; n < count; n++)
      void group
        .publish(`s.${++given}`, new Uint8Array(1), options)
        .then((outcome) => outcomes.push(outcome));
    await passed();
  };
  const end = async (count: number, outcome?: PublishOutcome): Promise<void> => {
    for (const one of out.splice(0, count))
      one.end(outcome ?? { _tag: "Stored", seq: (stored += 100) as Sequence });
    await passed();
  };
  return { give, end, outcomes, seen: () => out.map(({ what }) => what) };
}

/** What was given is sent, and what ended is heard. */
const passed = async (): Promise<void> => {
  for (let n = 0; n < 3; n++) await new Promise<void>((resolve) => setImmediate(resolve));
};
const alone = (count: number): string[] => Array.from({ length: count }, () => "alone");

test("a few messages are sent singly, without waiting for earlier ones", async () => {
  const { give, seen } = make();
  await give(3);
  expect(seen()).toEqual(alone(3));
  await give(4);
  expect(seen()).toEqual(alone(7));
});

test("when many arrive, those in flight end first, the rest is one batch, and later ones the next", async () => {
  const { give, end, seen, outcomes } = make();
  await give(5);
  await give(20);
  expect(seen()).toEqual(alone(5));
  await end(4);
  expect(seen()).toEqual(alone(1));
  await end(1);
  expect(seen()).toEqual(["batch of 20"]);
  await give(30);
  expect(seen()).toEqual(["batch of 20"]);
  await end(1);
  expect(seen()).toEqual(["batch of 30"]);
  await end(1);
  expect(outcomes).toHaveLength(55);
  expect(seen()).toEqual([]);
});

test("at most a batch's minimum number of messages is in flight singly", async () => {
  const { give, end, seen } = make();
  await give(7);
  await give(7);
  expect(seen()).toEqual(alone(8));
  await end(2);
  expect(seen()).toEqual(alone(8));
  await end(8);
  expect(seen()).toEqual(alone(4));
});

test("with several streams, the minimum size of a batch grows with their number", async () => {
  const { give, end, seen } = make(4);
  await give(20);
  expect(seen()).toEqual(alone(20));
  await give(40);
  expect(seen()).toEqual(alone(20));
  await end(20);
  expect(seen()).toEqual(["batch of 40"]);
});

test("a refused batch is sent message by message, and then waiting messages continue", async () => {
  const { give, end, seen, outcomes } = make();
  await give(9);
  await give(3);
  await end(1, { _tag: "Refused", code: 1, message: "no" });
  expect(seen()).toEqual(alone(9));
  await end(9);
  expect(outcomes.map(({ _tag }) => _tag)).toEqual(Array.from({ length: 9 }, () => "Stored"));
  expect(seen()).toEqual(alone(3));
});

test("a message that is abandoned before it is sent is not sent", async () => {
  const { give, end, seen, outcomes } = make();
  const stop = new AbortController();
  await give(9);
  await give(12, { signal: stop.signal });
  stop.abort();
  await end(1);
  expect(seen()).toEqual([]);
  expect(outcomes.filter(({ _tag }) => _tag === "NotSent")).toHaveLength(12);
  await give(1);
  expect(seen()).toEqual(alone(1));
});
