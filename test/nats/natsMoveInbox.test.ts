/** An older release's inbox, whose stream held the timers too, is replaced without a loss. */
import { describe, expect, it } from "vitest";
import { agentId, shardOf, type AgentId, type Epoch, type ShardId } from "../../schemas/Address.ts";
import { decodeFrame } from "../../schemas/Frame.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { makeNatsLeases } from "../../services/nats/NatsLeases.ts";
import { headers } from "../../services/nats/client/ReplyInbox.ts";
import { pollUntil } from "../kit/poll.ts";
import { message } from "../conformance/Backend.ts";
import { useNats } from "./useNats.ts";

const SHARDS = 4;
const GROUPS = 2;
const INPUTS = 600;

describe("an inbox that takes scheduled messages", () => {
  const used = useNats();
  const open = (subjects: Subjects, moveInbox: boolean): Promise<NatsShape> =>
    used.open(subjects, { shards: SHARDS, streamGroups: GROUPS, leaseTtlMs: 1_000, moveInbox });

  /** An installation as earlier releases left it: inbox and timers in one stream. */
  async function olderInstallation(namespace: string): Promise<NatsShape> {
    const nats = await open(new Subjects(namespace), false);
    const { subjects, api } = nats;
    for (const group of subjects.groups) {
      const [inbox, timers] = [
        subjects.streamOf("inbox", group),
        subjects.streamOf("timers", group),
      ];
      type Info = { readonly config: { readonly subjects: string[] } };
      const { config } = await api.call<Info>(`STREAM.INFO.${inbox}`);
      for (const stream of [inbox, timers]) await api.call(`STREAM.DELETE.${stream}`);
      const taken = config.subjects.flatMap((subject) => [
        subject,
        subject.replace(".inbox.", ".timer."),
      ]);
      await api.call(`STREAM.CREATE.${inbox}`, {
        ...config,
        subjects: taken,
        discard: "old",
        allow_msg_schedules: true,
      });
    }
    return nats;
  }
  const arm = (nats: NatsShape, id: AgentId, name: string, atMs: number) => {
    const shard = shardOf(id, SHARDS);
    return nats.publisher.publish(nats.subjects.timer(shard, id, name), message(name), {
      headers: headers(
        ["Nats-Schedule", `@at ${new Date(atMs).toISOString()}`],
        ["Nats-Schedule-Target", nats.subjects.inbox(shard, id)],
      ),
    });
  };
  const configOf = async (nats: NatsShape, group: number) =>
    (
      await nats.api.call<{ config: Record<string, unknown> }>(
        `STREAM.INFO.${nats.subjects.streamOf("inbox", group)}`,
      )
    ).config;

  it("is replaced: inputs keep their order, timers fire, and a gateway's rollup is refused", async () => {
    const old = await olderInstallation("older");
    const ids = Array.from({ length: SHARDS * 2 }, (_, n) => agentId("A", `a${n}`));
    const expected = new Map(ids.map((id) => [id.name, [] as string[]]));
    for (let n = 0; n < INPUTS; n++) {
      const id = ids[n % ids.length]!;
      expected.get(id.name)!.push(`in-${n}`);
      const subject = old.subjects.inbox(shardOf(id, SHARDS), id);
      expect(await old.publisher.publish(subject, message(`in-${n}`))).toMatchObject({
        _tag: "Stored",
      });
    }
    for (const id of ids) {
      await arm(old, id, "past", Date.now() - 1);
      await arm(old, id, "soon", Date.now() + 1_500);
      await arm(old, id, "far", Date.now() + 3_600_000);
    }
    const nats = await open(new Subjects("older"), true);
    for (const group of nats.subjects.groups) {
      const config = await configOf(nats, group);
      expect(config["allow_msg_schedules"] ?? false).toBe(false);
      expect(config["allow_rollup_hdrs"] ?? false).toBe(false);
    }
    const subject = nats.subjects.inbox(shardOf(ids[0]!, SHARDS), ids[0]!);
    const rollup = { headers: headers(["Nats-Rollup", "all"]) };
    expect((await nats.publisher.publish(subject, message("x"), rollup))._tag).toBe("Refused");

    const inbox = makeNatsInbox(nats, makeNatsBlobs(nats));
    const got = new Map(ids.map((id) => [id.name, [] as string[]]));
    const consumers = [];
    for (let shard = 0; shard < SHARDS; shard++)
      consumers.push(
        await inbox.consume(shard as ShardId, ({ id, data, ack }) => {
          got.get(id.name)!.push(String(decodeFrame(data).head["id"]));
          ack();
        }),
      );
    await pollUntil("timers fire", () => [...got.values()].every((one) => one.includes("soon")));
    for (const [name, labels] of expected) {
      const mine = got.get(name)!;
      expect(mine.filter((label) => label.startsWith("in-"))).toEqual(labels);
      expect(mine).toContain("past");
      expect(mine).not.toContain("far");
    }
    for (const consumer of consumers) await consumer.stop();
    type Info = { readonly state: { readonly messages: number } };
    let timers = 0;
    for (const stream of nats.subjects.streamsOf("timers"))
      timers += (await nats.api.call<Info>(`STREAM.INFO.${stream}`)).state.messages;
    expect(timers).toBe(ids.length);
  });

  it("is refused by a process that only starts, and says what to do", async () => {
    await olderInstallation("refused");
    await expect(open(new Subjects("refused"), false)).rejects.toMatchObject({
      _tag: "ProvisioningRefused",
      message: expect.stringMatching(/stop the hosts.*"agents provision"/) as unknown,
    });
  });

  it("is not replaced while a host runs", async () => {
    const old = await olderInstallation("alive");
    const leases = makeNatsLeases(old);
    const claimed = await leases.claim("host.h1", "h1");
    if (claimed._tag !== "Claimed") throw new Error("not claimed");
    const renewing = setInterval(() => void leases.renew(claimed.lease), 300);
    try {
      await expect(open(new Subjects("alive"), true)).rejects.toMatchObject({
        message: expect.stringContaining("the host h1 is still running") as unknown,
      });
    } finally {
      clearInterval(renewing);
    }
    expect((await configOf(old, 0))["allow_msg_schedules"]).toBe(true);
  });

  it("is resumed after a run was cut short when the old one was deleted", async () => {
    const old = await olderInstallation("cut");
    const id = agentId("A", "one");
    const shard = shardOf(id, SHARDS);
    const stream = old.subjects.streamOf("inbox", old.subjects.groupOfShard(shard));
    await open(new Subjects("cut"), true);
    // As if it had ended there.
    await old.publisher.publish(old.subjects.due(shard, id), message("waits"));
    await old.api.call(`STREAM.DELETE.${stream}`);
    const nats = await open(new Subjects("cut"), true);
    expect(nats).toMatchObject({ shards: SHARDS, streamGroups: GROUPS });
    const got: string[] = [];
    const inbox = makeNatsInbox(nats, makeNatsBlobs(nats));
    const consumer = await inbox.consume(
      shard,
      ({ data, ack }) => {
        got.push(String(decodeFrame(data).head["id"]));
        ack();
      },
      { epoch: 1 as Epoch },
    );
    await pollUntil("the input arrives", () => got.includes("waits"));
    await consumer.stop();
  });
});
