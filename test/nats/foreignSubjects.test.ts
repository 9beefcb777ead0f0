/** Messages on subjects that no release writes: nothing that lists or reads many ends at one. */
import { beforeAll, describe, expect, it } from "vitest";
import { agentId, type Sequence, type ShardId } from "../../schemas/Address.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsDeadLetters } from "../../services/nats/NatsDeadLetters.ts";
import { makeNatsJournal } from "../../services/nats/NatsJournal.ts";
import { makeNatsJournalFeed } from "../../services/nats/NatsJournalFeed.ts";
import { makeNatsLeases } from "../../services/nats/NatsLeases.ts";
import { makeNatsQuarantines } from "../../services/nats/NatsQuarantines.ts";
import { readStored } from "../../services/nats/readStored.ts";
import { encodeQuarantineMark, type QuarantineMark } from "../../schemas/QuarantineMark.ts";
import { collect } from "../kit/collect.ts";
import { pollUntil } from "../kit/poll.ts";
import { message, patient } from "../conformance/Backend.ts";
import { useNats } from "./useNats.ts";

const ID = agentId("A", "a");
const FIRST = 0 as Sequence;
const MARK: QuarantineMark = {
  kind: "kills",
  reason: "of the test",
  host: "h",
  sinceMs: 1,
  untilMs: 2,
  times: 1,
};
/** The subject of something else: no token has a percent sign. */
const foreign = (subject: string): string => `${subject}%`;

describe("a message on a foreign subject", () => {
  const used = useNats();
  let nats: NatsShape;
  beforeAll(async () => {
    nats = await used.open(new Subjects("foreign"), { shards: 1 });
  });
  const publish = (subject: string, data = message("x")) => nats.publisher.publish(subject, data);

  it("does not end the watch or the list of leases", async () => {
    const leases = makeNatsLeases(nats);
    await publish(foreign(`$KV.${nats.subjects.bucket.gateways}.gateway.g`));
    await leases.claim("gateway.g1", "g1");
    const seen: string[] = [];
    const stop = new AbortController();
    await leases.watch(({ key }) => void seen.push(key), stop.signal);
    await publish(foreign(`$KV.${nats.subjects.bucket.gateways}.gateway.h`));
    await leases.claim("gateway.g2", "g2");
    await pollUntil("both are seen", () => seen.length === 2 || { done: false, saw: seen });
    expect(seen).toEqual(["gateway.g1", "gateway.g2"]);
    expect((await leases.list("gateway.")).map(({ key }) => key)).toEqual(seen);
    stop.abort();
  });

  it("is in no backup of inboxes", async () => {
    const subject = nats.subjects.inbox(0 as ShardId, ID);
    await publish(foreign(subject));
    await publish(subject);
    const stored = await collect(readStored(nats, makeNatsBlobs(nats), "inbox"));
    expect(stored.map(({ id }) => id)).toEqual([ID]);
  });

  it("is in no list and no feed of journals", async () => {
    const blobs = makeNatsBlobs(nats);
    const journal = makeNatsJournal(nats, blobs);
    const got: string[] = [];
    const stop = new AbortController();
    const options = { signal: stop.signal, onFailed: (e: unknown) => void got.push(String(e)) };
    const feed = makeNatsJournalFeed(nats, blobs);
    await feed.follow({}, (id) => Promise.resolve(void got.push(id.name)), options);
    await publish(foreign(nats.subjects.journal(ID)));
    await journal.append(ID, message("x"), { expectedSeq: FIRST, signal: patient() });
    await pollUntil("the agent's event", () => got.length > 0);
    expect(got).toEqual(["a"]);
    expect((await collect(journal.list())).map(({ id }) => id)).toEqual([ID]);
    stop.abort();
  });

  it("is no mark of quarantine", async () => {
    const mark = encodeQuarantineMark(MARK);
    await publish(foreign(nats.subjects.quarantine(ID)), mark);
    await publish(nats.subjects.quarantine(ID), mark);
    expect((await makeNatsQuarantines(nats).list()).map(({ id }) => id)).toEqual([ID]);
  });

  it("is no dead letter, and can be removed", async () => {
    const letters = makeNatsDeadLetters(nats, makeNatsBlobs(nats));
    await publish(foreign(nats.subjects.dead(ID)));
    await letters.put(ID, message("x"));
    expect((await collect(letters.list())).map(({ id }) => id)).toEqual([ID]);
    expect(await letters.get(1 as Sequence)).toBeUndefined();
    expect(await letters.remove(1 as Sequence)).toBe(true);
  });
});
