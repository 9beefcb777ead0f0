/** Which past webhooks can be run again, and from where. */
import { expect, test } from "vitest";
import { webhookRuns, type WebhookRun } from "../../core/history/webhookRuns.ts";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent, type JournalHead, type TurnRecord } from "../../schemas/JournalEvent.ts";

const ID = agentId("RepoAgent", "hello");
type Turn = Partial<TurnRecord>;
type Event = readonly [ReadonlyArray<Turn>, Partial<JournalHead>?];

const hook = (id: string, attempt = 1): Pick<TurnRecord, "cause"> => ({
  cause: { kind: "webhook", id, ...(attempt === 1 ? {} : { attempt }) },
});
const failing = (id: string, attempt = 1): Turn => ({ ...hook(id, attempt), begun: true, error: "no" }); // prettier-ignore
const done = (id: string, attempt = 1): Turn => ({ ...hook(id, attempt), done: [id] });
const wrote = { state: { set: 1 } } as const;

async function runs(...events: ReadonlyArray<Event>): Promise<WebhookRun[]> {
  const found: WebhookRun[] = [];
  const read = async function* () {
    for (const [n, [turns, more]] of events.entries()) {
      const head: JournalHead = {
        id: String(n), agent: ["RepoAgent", "hello"], kind: "turns", host: "h", epoch: 1, time: n,
        turns: turns.map((turn) => ({ cause: { kind: "rpc", id: `rpc ${n}` }, ...turn })), ...more,
      }; // prettier-ignore
      yield { seq: (n + 1) as Sequence, storedMs: 0, data: encodeEvent(head) };
    }
  };
  for await (const run of webhookRuns(ID, { read })) found.push(run);
  return found;
}
const places = async (...events: ReadonlyArray<Event>) =>
  (await runs(...events)).map(({ seq, fromSeq, failed, obstacle }) => [
    seq,
    obstacle ?? fromSeq,
    failed,
  ]);

test("a webhook that was done at once begins before its event", async () => {
  expect(await places([[done("a")]], [[{}]], [[done("b"), done("c")]])).toEqual([
    [1, 1, false],
    [3, 3, false],
  ]);
});

test("one whose failed attempts wrote nothing begins before its last, whatever came between", async () => {
  expect(
    await places([[failing("a")]], [[{ ...wrote }]], [[failing("a", 2)]], [[{ ...hook("a", 3), dead: true, error: "no" }]]),
  ).toEqual([[4, 4, true]]); // prettier-ignore
});

test("one whose attempts wrote begins before the first of them", async () => {
  expect(await places([[{}]], [[{ ...failing("a"), ...wrote }]], [[done("a", 2)]])).toEqual([
    [3, 2, true],
  ]);
  expect(await places([[failing("a")], { pages: 3 }], [[done("a", 2)]])).toEqual([[2, 1, true]]);
});

test("what can't be told apart from other turns' writes is not run again, and why is told", async () => {
  const between = "it wrote in several commits, with other turns between";
  expect(await places([[{ ...failing("a"), ...wrote }]], [[{}]], [[done("a", 2)]])).toEqual([[3, between, true]]); // prettier-ignore
  expect(await places([[done("a"), {}]])).toEqual([[1, "it shares its commit with a rpc", false]]);
  expect(await places([[done("a"), failing("b")]])).toEqual([
    [1, "it shares its commit with a webhook that went on", false],
  ]);
  expect(await places([[{ ...failing("a"), ...wrote }]], [[done("a", 2), done("b")]])).toEqual([
    [2, "it wrote in an earlier commit, and shares its last with others", true],
  ]);
});

test("what was taken back was never written", async () => {
  const undone: Turn = { ...hook("a"), begun: true, undone: true };
  expect(await places([[{ ...hook("a"), begun: true, ...wrote }]], [[undone]], [[{}]], [[done("a", 2)]])).toEqual([[4, 4, true]]); // prettier-ignore
});
