/** Steps and parts in the journal: what an event, a replay and a snapshot have of them. */
import { describe, expect, test } from "vitest";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { encodeCommit } from "../../core/journal/encodeCommit.ts";
import { Turn } from "../../core/turn/Turn.ts";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent, type JournalHead, type TurnRecord } from "../../schemas/JournalEvent.ts";
import { decodeSnapshot } from "../../schemas/Snapshot.ts";

const ID = agentId("Ledger", "a");
const webhook = (id: string, more: Partial<TurnRecord> = {}): TurnRecord => ({
  cause: { kind: "webhook", id },
  ...more,
});
const begun = { begun: true } as const;
const set = { state: { set: 1 } } as const;

/** The image after events that hold these turns; the first has the sequence 1. */
function after(...events: ReadonlyArray<Partial<JournalHead>>): AgentImage {
  const image = new AgentImage(ID);
  for (const [n, event] of events.entries())
    applyEvent(image, (n + 1) as Sequence, {
      id: `e${n}`,
      agent: ["Ledger", "a"],
      kind: "turns",
      host: "h",
      epoch: 1,
      time: n,
      turns: [],
      ...event,
    });
  return image;
}
const parts = (...events: ReadonlyArray<Partial<JournalHead>>): unknown =>
  after(...events).parts?.toSnapshot();

const PART = { turns: [webhook("a", { ...begun, ...set })], part: true } as const;

describe("the parts that the next owner undoes", () => {
  test("are those at the end of the journal, from the first of them", () => {
    expect(parts(PART)).toEqual([1, [["a", "webhook"]]]);
    expect(parts({ turns: [webhook("z", set)] }, PART, PART)).toEqual([2, [["a", "webhook"]]]);
    const other = { turns: [webhook("b", { ...begun, ...set })], part: true } as const;
    expect(parts(PART, other)).toEqual([1, [["a", "webhook"], ["b", "webhook"]]]); // prettier-ignore
  });

  test.each<[string, Partial<JournalHead>]>([
    ["the result of a step", { turns: [webhook("a", { ...begun, steps: [{ key: "1:x" }] })] }],
    ["a new owner's claim", { kind: "claimed" }],
    ["another input that is done and wrote nothing", { turns: [webhook("b", { done: ["b"] })] }],
    ["an announced attempt", { turns: [webhook("a", begun)] }],
  ])("remain after %s", (_what, event) => {
    expect(parts(PART, event)).toEqual([1, [["a", "webhook"]]]);
  });

  test.each<[string, Partial<JournalHead>]>([
    ["the end of their turn", { turns: [webhook("a", { done: ["a"] })] }],
    ["the failed attempt of their turn", { turns: [webhook("a", { ...begun, error: "no" })] }],
    ["the death of their input", { turns: [webhook("a", { done: ["dead:1"], dead: true })] }],
    ["a state that stands", { turns: [webhook("b", set)] }],
    ["pages that stand", { turns: [], pages: 3 }],
    ["a queue item", { turns: [], queue: { del: ["q"] } }],
    ["the event that undid them", { turns: [webhook("a", { ...begun, undone: true })] }],
    ["the end of the agent's life", { kind: "destroyed" }],
  ])("become final after %s", (_what, event) => {
    expect(parts(PART, event)).toBeUndefined();
  });
});

describe("results of steps", () => {
  const STEPS = [{ key: "1:x", result: { n: [1] } }, { key: "2:x" }];
  const done = after({ turns: [webhook("a", { ...begun, steps: STEPS })] });

  test("are kept by input and step until the input is done, dead, or a job that ends with its agent", () => {
    expect([...done.steps!.get("a")!]).toEqual([["1:x", '{"n":[1]}'], ["2:x", undefined]]); // prettier-ignore
    const step = { turns: [webhook("a", { ...begun, steps: STEPS })] };
    for (const end of [{ done: ["a"] }, { done: ["dead:1"], dead: true }] as const)
      expect(after(step, { turns: [webhook("a", end)] }).steps).toBeUndefined();
    const failed = after(step, { turns: [webhook("a", { ...begun, error: "no" })] });
    expect(failed.steps?.get("a")?.size).toBe(2);
    const job = { turns: [{ ...webhook("a", { ...begun, steps: STEPS }), cause: { kind: "queue", id: "a" } }] } as const; // prettier-ignore
    expect(after(job, { kind: "destroyed" }).steps).toBeUndefined();
  });

  test("keep a run that stored one from counting as an attempt until it fails", () => {
    const cause = { kind: "webhook", id: "a", attempt: 2 } as const;
    const attempts = (record: Partial<TurnRecord>) =>
      after({ turns: [{ cause, begun: true, ...record }] }).begun.get("a")?.attempts;
    expect(attempts({})).toBe(2);
    expect(attempts({ steps: STEPS })).toBe(1);
    expect(attempts({ steps: [] })).toBe(1);
    expect(attempts({ steps: STEPS, error: "no" })).toBe(2);
  });

  test("and open parts are stored in snapshots", () => {
    const image = after(PART, { turns: [webhook("a", { ...begun, steps: STEPS })] });
    const { head } = decodeSnapshot(image.encode(new Uint8Array(0)));
    const again = AgentImage.fromSnapshot(ID, head);
    expect(again.steps).toEqual(image.steps);
    expect(again.parts?.toSnapshot()).toEqual([1, [["a", "webhook"]]]);
  });

  test("are the same in the applied head and in the written one", () => {
    const image = new AgentImage(ID);
    const turn = new Turn({ cause: { kind: "webhook", id: "a" }, owner: {}, durable: true });
    const texts = ['{"b":"\\u2028","a":[1e21]}', "null", undefined, '"🦉"'];
    const { data, head } = encodeCommit({
      image,
      host: "h",
      epoch: 1 as Epoch,
      timeMs: 1,
      eventId: "e",
      turns: [
        {
          turn,
          state: undefined,
          sql: [],
          outcome: undefined,
          told: false,
          steps: texts.map((text, n) => ({ key: `${n}:x "y"`, text })),
        },
      ],
      part: true,
    });
    expect(decodeEvent(data).head).toEqual(head);
    applyEvent(image, 1 as Sequence, head);
    expect([...image.steps!.get("a")!.values()].map((text) => text && JSON.parse(text))).toEqual(
      texts.map((text) => text && JSON.parse(text)),
    );
  });
});
