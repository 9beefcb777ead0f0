/** What the committer applies of an event is what anybody else reads of it. */
import { expect, test } from "vitest";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { encodeCommit, type CommitTurn } from "../../core/journal/encodeCommit.ts";
import { Turn } from "../../core/turn/Turn.ts";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { decodeSnapshot } from "../../schemas/Snapshot.ts";

const ID = agentId("Ledger", "a/ü");

/** A turn that set the state to the values, one after the other; undefined unsets it. */
const turnOf = (n: number, next: unknown, id = `github:${n}`): CommitTurn => ({
  turn: new Turn({
    cause: { kind: "webhook", id, time: n, body: '{"a":"\\u2028 🦉"}' },
    owner: {},
    durable: true,
  }),
  state: { text: next === undefined ? undefined : JSON.stringify(next) },
  sql: n % 2 === 0 ? [] : ['INSERT INTO "t" VALUES (?)'],
  outcome: undefined,
  told: false,
});

const long = (text: string): { readonly text: string } => ({ text: text.repeat(400) });

/** Each commit's turns, by the states that they set. */
const COMMITS: ReadonlyArray<ReadonlyArray<unknown>> = [
  [{ count: 1 }],
  [{ count: -0, big: 1e21, small: 5e-324, 2: "b", 1: "a" }, "a text", null],
  [[1, [2, { three: "3" }]]],
  // Own properties with names that mean something to JavaScript.
  [JSON.parse('{"__proto__":{"x":1},"constructor":null}')],
  // Larger than what is written whole: splices, one over the other within a commit.
  [long("abc")],
  [
    { ...long("abc"), more: 1 },
    { ...long("abc"), more: 2 },
  ],
  // Cut between the two halves of one character, and by a half that stands alone.
  [{ text: `${"x".repeat(2_000)}\u{1f600}` }],
  [{ text: `${"x".repeat(2_000)}\u{1f601}` }],
  [{ text: `${"x".repeat(2_000)}\ud83d` }],
  [undefined],
  [{ after: "it was unset" }, undefined, { after: "once more" }],
];

test("the state after a commit equals the state that a reader of its event reconstructs", () => {
  const [live, read] = [new AgentImage(ID), new AgentImage(ID)];
  const ways = new Set<string>();
  for (const [n, states] of COMMITS.entries()) {
    const { data, head, state } = encodeCommit({
      image: live,
      host: "h",
      epoch: 3 as Epoch,
      timeMs: n,
      eventId: `e${n}`,
      turns: states.map((next, i) => turnOf(n * 10 + i, next)),
    });
    const event = decodeEvent(data).head;
    for (const turn of event.turns) for (const way in turn.state) ways.add(way);
    applyEvent(live, (n + 1) as Sequence, head, state);
    applyEvent(read, (n + 1) as Sequence, event);
    expect(live.state).toBe(read.state);
    live.stateIsExact = read.stateIsExact; // what only a writer needs to know
    expect(live).toEqual(read);
    // The head that was applied is the one that was written, but for the changes of state.
    const turns = event.turns.map((turn) => ({ ...turn, state: undefined }));
    expect(head).toEqual({ ...event, turns });
  }
  expect([...ways].toSorted()).toEqual(["clear", "set", "splice"]);
});

test("a text that replay writes differently is no base of a splice, and a splice's text is kept", () => {
  const [live, read] = [new AgentImage(ID), new AgentImage(ID)];
  const pad = "x".repeat(3_000);
  // As JSON.rawJSON("1.50") writes it, and a proxy with keys in an order of its own.
  const texts = ["1.50", "1.5", "1.51", "1.60", "1.61", '{"b":0,"1":0}', '{"b":0,"1":2}'];
  for (const [n, price] of texts.entries()) {
    const text = `{"price":${price},"pad":"${pad}","n":${n}}`;
    const turn = { ...turnOf(n, 0), state: { text } };
    const common = { image: live, host: "h", epoch: 3 as Epoch, timeMs: n, eventId: `e${n}` };
    const { data, head, state } = encodeCommit({ ...common, turns: [turn] });
    applyEvent(live, (n + 1) as Sequence, head, state);
    applyEvent(read, (n + 1) as Sequence, decodeEvent(data).head);
    expect(JSON.parse(read.state!)).toEqual(JSON.parse(text));
    const from = AgentImage.fromSnapshot(ID, decodeSnapshot(live.encode()).head);
    expect(from.state).toBe(read.state);
  }
});

test("a commit without a state change keeps the state", () => {
  const image = new AgentImage(ID);
  const common = { image, host: "h", epoch: 3 as Epoch, timeMs: 1 };
  const first = encodeCommit({ ...common, eventId: "1", turns: [turnOf(1, { kept: true })] });
  applyEvent(image, 1 as Sequence, first.head, first.state);
  const turn: CommitTurn = { ...turnOf(2, 0), state: undefined };
  const second = encodeCommit({ ...common, eventId: "2", turns: [turn] });
  expect(second.state).toBeUndefined();
  applyEvent(image, 2 as Sequence, second.head, second.state);
  expect(image.state).toBe('{"kept":true}');
});
