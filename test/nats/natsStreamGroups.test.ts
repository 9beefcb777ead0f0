/** Stream groups: the ports keep their rules over four, with and without group commit. */
import { describe, expect, it } from "vitest";
import { agentId, shardOf, type Sequence, type ShardId } from "../../schemas/Address.ts";
import { Subjects, type GroupedStream } from "../../schemas/Subjects.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { makeNatsJournal } from "../../services/nats/NatsJournal.ts";
import { makeNatsSnapshots } from "../../services/nats/NatsSnapshots.ts";
import { makeNatsTimers } from "../../services/nats/NatsTimers.ts";
import { message, patient } from "../conformance/Backend.ts";
import { feedRules } from "../conformance/feedRules.ts";
import { inboxRules } from "../conformance/inboxRules.ts";
import { journalRules } from "../conformance/journalRules.ts";
import { natsBackend } from "../conformance/natsBackend.ts";
import { storeRules } from "../conformance/storeRules.ts";
import { timerRules } from "../conformance/timerRules.ts";
import { useNats } from "./useNats.ts";

const GROUPS = 4;

describe("with four stream groups", () => {
  const backend = () => natsBackend({ streamGroups: GROUPS });
  journalRules(backend);
  feedRules(backend);
  inboxRules(backend);
  storeRules(backend);
  timerRules(backend);
});

describe("with four stream groups and group commit", () => {
  journalRules(() => natsBackend({ streamGroups: GROUPS, groupCommit: true }));
});

describe("stream groups", () => {
  const { open } = useNats();
  let namespaces = 0;
  const newNamespace = (): Subjects => new Subjects(`groups${++namespaces}`);
  const countOf = async (nats: NatsShape, stream: string): Promise<number> =>
    (await nats.api.call<{ state: { messages: number } }>(`STREAM.INFO.${stream}`)).state.messages;
  const appended = async (nats: NatsShape, name: string): Promise<void> => {
    const options = { expectedSeq: 0 as Sequence, signal: patient() };
    const journal = makeNatsJournal(nats, makeNatsBlobs(nats));
    const result = await journal.append(agentId("A", name), message(name), options);
    expect(result._tag).toBe("Stored");
  };
  const names = Array.from({ length: 40 }, (_, n) => `agent${n}`);

  it("keep the original names and subjects when there is one group", async () => {
    const nats = await open(newNamespace(), { shards: 8 });
    const { namespace } = nats.subjects;
    expect(nats.streamGroups).toBe(1);
    expect(nats.subjects.streamsOf("journal")).toEqual([`${namespace}_JOURNAL`]);
    expect(nats.subjects.journal(agentId("A", "x"))).toBe(`${namespace}.journal.A.x`);
    type Info = { config: { subjects: string[] } };
    const info = await nats.api.call<Info>(`STREAM.INFO.${namespace}_INBOX`);
    expect(info.config.subjects).toEqual([`${namespace}.inbox.>`]);
  });

  it("count as one in an installation older than groups, whatever its streams' metadata omit", async () => {
    const subjects = newNamespace();
    const { api } = await open(subjects, { shards: 8 });
    type Info = { config: Record<string, unknown> };
    const { inbox } = subjects.stream;
    const { config } = await api.call<Info>(`STREAM.INFO.${inbox}`);
    await api.call(`STREAM.UPDATE.${inbox}`, { ...config, metadata: { "agents.shards": "8" } });
    expect(await open(subjects, {})).toMatchObject({ shards: 8, streamGroups: 1 });
    await expect(open(subjects, { streamGroups: 2 })).rejects.toMatchObject({
      _tag: "StreamGroupsRefused",
    });
  });

  it("hold all inputs, timers, events and snapshots of the agents of their shards", async () => {
    const nats = await open(newNamespace(), { shards: 8, streamGroups: GROUPS });
    const { subjects } = nats;
    const blobs = makeNatsBlobs(nats);
    const expected = [0, 0, 0, 0];
    for (const name of names) {
      const id = agentId("A", name);
      expected[shardOf(id, 8) % GROUPS]!++;
      await appended(nats, name);
      await makeNatsInbox(nats, blobs).publish(id, message(name), { signal: patient() });
      await makeNatsTimers(nats).arm(id, "t", Date.now() + 3_600_000, message("later"));
      await makeNatsSnapshots(nats, blobs).put(id, message(name));
    }
    expect(expected.every((count) => count > 0)).toBe(true);
    const counts = (which: GroupedStream) =>
      Promise.all(subjects.streamsOf(which).map((stream) => countOf(nats, stream)));
    expect(await counts("journal")).toEqual(expected);
    expect(await counts("snapshots")).toEqual(expected);
    expect(await counts("inbox")).toEqual(expected);
    expect(await counts("timers")).toEqual(expected);
    expect(await makeNatsInbox(nats, blobs).depth()).toBe(names.length);
  });

  it("are all listed, for agents of one class or of all", async () => {
    const nats = await open(newNamespace(), { shards: 8, streamGroups: GROUPS });
    for (const name of names) await appended(nats, name);
    const journal = makeNatsJournal(nats, makeNatsBlobs(nats));
    const listed = async (className?: string) => {
      const found: string[] = [];
      for await (const { id } of journal.list(className)) found.push(id.name);
      return found.toSorted();
    };
    expect(await listed()).toEqual(names.toSorted());
    expect(await listed("A")).toEqual(names.toSorted());
    expect(await listed("Agent")).toEqual([]);
  });

  it("have their own shards' consumers", async () => {
    const nats = await open(newNamespace(), { shards: 8, streamGroups: GROUPS });
    const inbox = makeNatsInbox(nats, makeNatsBlobs(nats));
    const consumer = await inbox.consume(6 as ShardId, () => undefined);
    const consumers = await Promise.all(
      nats.subjects.streamsOf("inbox").map(async (stream) => {
        const { total } = await nats.api.call<{ total: number }>(`CONSUMER.NAMES.${stream}`);
        return total;
      }),
    );
    await consumer.stop();
    expect(consumers).toEqual([0, 0, 1, 0]);
  });

  it("have a fixed number: another one is refused, an omitted one is read, concurrent calls agree", async () => {
    const subjects = newNamespace();
    const all = await Promise.all(
      Array.from({ length: 4 }, () => open(subjects, { shards: 8, streamGroups: GROUPS })),
    );
    expect(all.map((nats) => nats.streamGroups)).toEqual([4, 4, 4, 4]);
    for (const options of [undefined, {}, { streamGroups: 4 }])
      expect(await open(subjects, options)).toMatchObject({ shards: 8, streamGroups: 4 });
    for (const streamGroups of [1, 2, 8])
      await expect(open(subjects, { streamGroups })).rejects.toMatchObject({
        _tag: "StreamGroupsRefused",
        message: expect.stringContaining("--stream-groups 4") as unknown,
      });
  });

  it("must divide the existing shards", async () => {
    const subjects = newNamespace();
    await open(subjects, { shards: 9, streamGroups: 3 });
    expect(await open(subjects, { streamGroups: 3 })).toMatchObject({ shards: 9 });
    await expect(open(newNamespace(), { shards: 8, streamGroups: 3 })).rejects.toMatchObject({
      _tag: "StreamGroupsRefused",
      message: expect.stringContaining("8 shards") as unknown,
    });
  });
});
