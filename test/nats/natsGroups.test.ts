/** Group commit keeps the rules of journal and inbox, and its own: one batch, an outcome each. */
import { beforeAll, describe, expect, it } from "vitest";
import type { Sequence } from "../../schemas/Address.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { PublishOutcome } from "../../services/nats/client/AckPublisher.ts";
import { GroupPublisher } from "../../services/nats/client/GroupPublisher.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { inboxRules } from "../conformance/inboxRules.ts";
import { journalRules } from "../conformance/journalRules.ts";
import { natsBackend } from "../conformance/natsBackend.ts";
import { useNats } from "./useNats.ts";

describe("with group commit", () => {
  journalRules(() => natsBackend({ groupCommit: true }));
  inboxRules(() => natsBackend({ groupCommit: true }));
});

describe("a group", () => {
  const used = useNats({ syncAlways: true });
  let nats: NatsShape;
  let batches: number;
  let group: GroupPublisher;
  beforeAll(async () => {
    nats = await used.open(new Subjects("groups"), { shards: 4 });
    const { publisher } = nats;
    const send = publisher.send.bind(publisher);
    publisher.send = (...args) => (batches++, send(...args));
    group = new GroupPublisher(publisher, { on: true });
  });

  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  const append = (agent: string, expectedSeq: number, text = agent): Promise<PublishOutcome> =>
    group.publishAfter(expectedSeq as Sequence, `groups.journal.A.${agent}`, bytes(text));
  const stored = async (seq: number): Promise<string> => {
    const found = await nats.reader.byLeader(nats.subjects.stream.journal, {
      seq: seq as Sequence,
    });
    return new TextDecoder().decode(found!.data);
  };
  const many = (prefix: string, count: number): Promise<PublishOutcome[]> => {
    batches = 0;
    return Promise.all(Array.from({ length: count }, (_, n) => append(`${prefix}${n}`, 0)));
  };
  const seqOf = (outcome: PublishOutcome): number =>
    outcome._tag === "Stored" ? outcome.seq : Number.NaN;

  it("of many is one batch, and each message has its own sequence", async () => {
    const outcomes = await many("many", 300);
    expect(batches).toBe(299);
    const seqs = outcomes.map(seqOf);
    expect(new Set(seqs).size).toBe(300);
    for (const n of [0, 1, 150, 299]) expect(await stored(seqs[n]!)).toBe(`many${n}`);
  });

  it("of few is sent message by message", async () => {
    const outcomes = await many("few", 3);
    expect(batches).toBe(0);
    expect(outcomes.map(({ _tag }) => _tag)).toEqual(["Stored", "Stored", "Stored"]);
  });

  it("with one conflict stores the others, and refuses only that one", async () => {
    const [first] = await many("taken", 1);
    const others = Array.from({ length: 20 }, (_, n) => append(`free${n}`, 0));
    const [late, right] = [append("taken0", 0, "late"), append("taken0", seqOf(first!), "right")];
    expect((await Promise.all(others)).every(({ _tag }) => _tag === "Stored")).toBe(true);
    expect(await late).toMatchObject({ _tag: "Refused" });
    expect(await stored(seqOf(await right))).toBe("right");
  });

  it("contains a subject once: the second append waits for the first, and may expect its result", async () => {
    const firsts = Array.from({ length: 20 }, (_, n) => append(`twice${n}`, 0));
    const again = append("twice0", 0, "again");
    expect((await Promise.all(firsts)).every(({ _tag }) => _tag === "Stored")).toBe(true);
    expect(await again).toMatchObject({ _tag: "Refused" });
  });

  it("leaves out what was abandoned before it was sent", async () => {
    const gone = AbortSignal.abort();
    const rest = Array.from({ length: 20 }, (_, n) => append(`rest${n}`, 0));
    const left = group.publishAfter(0 as Sequence, "groups.journal.A.gone", bytes("x"), gone);
    expect(await left).toMatchObject({ _tag: "NotSent" });
    expect((await Promise.all(rest)).every(({ _tag }) => _tag === "Stored")).toBe(true);
  });

  it("whose ack is lost has an unknown outcome for each message, and later groups continue", async () => {
    used.server.freeze();
    const lost = Array.from({ length: 20 }, (_, n) => append(`lost${n}`, 0));
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    await used.server.kill();
    const tags = new Set((await Promise.all(lost)).map(({ _tag }) => _tag));
    expect([...tags].every((tag) => tag === "Ambiguous" || tag === "NotSent")).toBe(true);
    await used.server.restart();
    await nats.connection.untilConnected(10_000);
    expect((await many("after", 20)).every(({ _tag }) => _tag === "Stored")).toBe(true);
  });
});
