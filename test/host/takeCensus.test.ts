/** The census of sockets where a gateway answers nonsense: the shard starts without its sockets. */
import { expect, test } from "vitest";
import { agentId, shardOf, type AgentId } from "../../schemas/Address.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { encodeFrame } from "../../schemas/Frame.ts";
import type { HostServices } from "../../services/host/HostServices.ts";
import { takeCensus } from "../../services/host/takeCensus.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { collectingLog } from "../kit/system.ts";

const SHARDS = 8;
const ID = agentId("A", "a");
const SHARD = shardOf(ID, SHARDS);
const other = (): AgentId => {
  for (let n = 0; ; n++) {
    const id = agentId("A", `b${n}`);
    if (shardOf(id, SHARDS) !== SHARD) return id;
  }
};

const socketOf = (gateway: string, sid: string) =>
  ({ gateway, sid, id: sid, url: "http://x/", headers: [] }) as const;
const entry = (gateway: string, sid: string, { class: of, name } = ID) => ({
  agent: [of, name],
  socket: socketOf(gateway, sid),
});

/** Takes a census of two gateways: `odd`, with these replies, and `good`, which has one socket. */
async function census(reply: (request: number) => Uint8Array) {
  const time = new VirtualTime();
  const log = collectingLog();
  const subjects = new Subjects();
  let requests = 0;
  const services = {
    bus: {
      request: async (subject: string) => {
        if (subject === subjects.gateway("odd", "census"))
          return { _tag: "Reply", data: reply(requests++) };
        const sockets = [entry("good", "s1")];
        return { _tag: "Reply", data: encodeMessage({ gateway: "good", sockets }) };
      },
    },
    config: { subjects, shards: SHARDS },
    time,
    log,
  } as object as HostServices;
  const found: string[] = [];
  const { signal } = new AbortController();
  await takeCensus(services, {
    shard: SHARD,
    gateways: ["odd", "good"],
    found: (id, { gateway, sid }) => found.push(`${id.name} ${gateway} ${sid}`),
    signal,
  });
  return { found, time, log, requests: () => requests };
}

const damaged = new Uint8Array([1, 2, 3]);
const newer = Buffer.from(
  Buffer.from(encodeFrame({ a: 1 }))
    .toString()
    .replace('"v":1', '"v":9'),
);

test.each([
  ["can't be decoded", damaged],
  ["is of a newer release", newer],
  ["has no sockets", encodeMessage({ gateway: "odd" })],
  ["has a number of sockets", encodeMessage({ gateway: "odd", sockets: 5 })],
])("a gateway whose answer %s costs its own sockets, and is asked again", async (_, answer) => {
  const { found, log, time } = await census((request) =>
    request < 2 ? answer : encodeMessage({ gateway: "odd", sockets: [entry("odd", "s2")] }),
  );
  expect(found).toEqual(["a good s1"]);
  await time.advance(3_000);
  expect(found).toEqual(["a good s1", "a odd s2"]);
  expect(log.lines.map(({ message }) => message)).toEqual([
    "a gateway's sockets could not be listed",
  ]);
});

test("a gateway that has a next page each time is not asked without end", async () => {
  const next = encodeMessage({ gateway: "odd", sockets: [], next: "x" });
  const { found, log, requests } = await census(() => next);
  expect(found).toEqual(["a good s1"]);
  expect(requests()).toBeLessThan(10_000);
  expect(log.lines).toHaveLength(1);
});

test("what is no socket of the shard is left out", async () => {
  const sockets = [
    null,
    5,
    {},
    { agent: ["A", "a"] },
    { agent: "Aa", socket: socketOf("odd", "s3") },
    { agent: ["A", 5], socket: socketOf("odd", "s4") },
    { agent: ["A", "a"], socket: { gateway: "odd", sid: "s5" } },
    entry("odd", "s6", other()),
    entry("odd", "s7"),
  ];
  const { found } = await census(() => encodeMessage({ gateway: "odd", sockets }));
  expect(found.toSorted()).toEqual(["a good s1", "a odd s7"]);
});
