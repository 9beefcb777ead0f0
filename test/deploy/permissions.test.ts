/** The permissions of `deploy/nats` on a real server: enough for each user, and no more. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Effect } from "effect";
import WebSocket from "ws";
import { Journal } from "../../core/journal/Journal.ts";
import { Snapshots } from "../../core/journal/Snapshots.ts";
import { trimAgent } from "../../core/retention/trimAgent.ts";
import { agentId } from "../../schemas/Address.ts";
import { natsLayer } from "../../services/nats/natsLayer.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { natsOptions } from "../../services/wiring/joinNats.ts";
import { processLog } from "../../services/node/ProcessLog.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { ANSWERED_BY_AGENT, Installation, type Role } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { postLedger } from "../kit/postLedger.ts";
import { deployNats, type Deployed, type User } from "./DeployedNats.ts";

const MAIL_MODULE = fileURLToPath(new URL("../../examples/mail/server.ts", import.meta.url));
/** Past the server's payload limit: the object store takes it. */
const LARGE_BYTES = 3 * 1024 * 1024;
/** A refusal arrives before the answer to a later ping; this bounds the wait for allowed ones. */
const REQUEST_TIMEOUT_MS = 2_000;

let nats: Deployed;
let installation: Installation;
let host: AgentsProcess;

interface Run {
  readonly code: number;
  readonly text: string;
}
const cli = async (role: Role, ...args: string[]): Promise<Run> => {
  const { code, out, err } = await installation.agentsAs(role, ...args);
  return { code, text: out + err };
};

const sendWebhook = (id: string, noise = ""): Promise<number> =>
  postLedger(installation.gateway.url, { agent: "one", id, noise });

/** What the server refuses a user of `subjects`: to publish with a reply subject, or subscribe. */
async function refusals(
  user: User,
  verb: "publish" | "subscribe",
  subjects: ReadonlyArray<string>,
): Promise<string[]> {
  const client = await nats.connect(user, { inboxPrefix: `_INBOX.agents.${user}` });
  const refused: string[] = [];
  const reading = (async () => {
    for await (const status of client.status())
      if (status.type === "error") refused.push(/"(.*)"/.exec(String(status.error))?.[1] ?? "?");
  })();
  for (const subject of subjects)
    if (verb === "publish") client.publish(subject, "{}");
    else client.subscribe(subject, { callback: () => undefined });
  await client.flush();
  await client.close();
  await reading;
  return refused;
}

beforeAll(async () => {
  nats = await deployNats({ config: "single.conf" });
  installation = await Installation.start({
    broker: nats,
    shards: 4,
    args: ["--require-durable"],
    env: ANSWERED_BY_AGENT,
  });
  host = await installation.startHost("host");
  await installation.gateway.ready();
});

afterAll(() => installation?.stop());

describe("with every process under its own user", () => {
  test("webhooks are stored and answered by their agent, large ones too", async () => {
    expect(await sendWebhook("w1")).toBe(200);
    expect(await sendWebhook("w2", "x".repeat(LARGE_BYTES))).toBe(200);
  });

  test("calls and sockets reach the agent", async () => {
    const url = `${installation.gateway.url}/agents/ledger/one`;
    expect(await (await fetch(url)).json()).toMatchObject({ ids: ["w1", "w2"] });
    const socket = new WebSocket(url.replace("http", "ws"));
    const frames: string[] = [];
    socket.on("message", (data) => frames.push(String(data)));
    await pollUntil("the state comes", () => frames.some((f) => f.includes('"count":2')));
    socket.terminate();
  });

  test("questions over all agents are answered", async () => {
    const answer = await fetch(`${installation.gateway.url}/agents/ledger/one?of=all`);
    expect(await answer.json()).toEqual([{ count: 2 }]);
  });

  test("the reader reads agents, their history and state, and can't change them", async () => {
    expect((await cli("reader", "list")).text).toContain("one");
    expect((await cli("reader", "state", "Ledger", "one")).text).toContain('"count": 2');
    expect((await cli("reader", "history", "Ledger", "one")).text).toContain("github");
    const data = installation.pathOf("reader");
    const counted = ["query", "SELECT state->>'count' AS n FROM Ledger", "--data", data];
    expect(await cli("reader", ...counted, "--json")).toEqual({ code: 0, text: '[{"n":2}]\n' });
    // A host has answered.
    expect(existsSync(join(data, "view"))).toBe(false);
    expect(await cli("reader", ...counted, "--json", "--local")).toMatchObject({ code: 0 });
    expect(existsSync(join(data, "view"))).toBe(true);
    expect((await cli("reader", "dead", "list")).code).toBe(0);
    expect((await cli("reader", "call", "Ledger", "one", "x", "--timeout", "1")).code).toBe(1);
  });

  test("the mail process starts and is ready", async () => {
    const args = ["--smtp-port", "0", "--data", installation.pathOf("mail")];
    const mail = await installation.startProcess("mail", { module: MAIL_MODULE, args });
    await mail.ready().finally(() => mail.stop());
  });

  test("retention trims a journal, large events too", async () => {
    const { databases, close } = await openSqliteDatabases({ folder: undefined });
    const target = { natsUrl: nats.url("retention"), namespace: "agents" };
    const id = agentId("Ledger", "one");
    // Ahead by more than what always stays.
    const time = { nowMs: () => Date.now() + 3_600_000 };
    const trimmed = Effect.gen(function* () {
      const ports = { journal: yield* Journal, snapshots: yield* Snapshots, databases, time };
      return yield* Effect.promise(async () => {
        let events = 0;
        for await (const entry of ports.journal.list("Ledger")) events += entry.events;
        const { seq: first } = (await ports.journal.first(id))!;
        return trimAgent(id, ports, { limits: { events: 1 }, first, events });
      });
    });
    const layer = natsLayer(natsOptions(target, "retention", processLog()));
    expect(await Effect.runPromise(Effect.scoped(Effect.provide(trimmed, layer)))).toMatchObject({
      _tag: "Trimmed",
    });
    close();
    expect((await cli("reader", "state", "Ledger", "one")).text).toContain('"count": 2');
    const process = await installation.startRetention({ args: ["--history", "days=1"] });
    await process.ready().finally(() => process.stop());
  });

  test("the operator provisions again", async () => {
    const run = await cli("operator", "provision");
    expect(run).toMatchObject({ code: 0 });
    expect(run.text).toContain("Durability: acknowledged is on disk (1 copy");
  });

  test("the server refuses nothing but the reader's call", () => {
    const violations = nats.servers[0]!.log()
      .split("\n")
      .filter((line) => line.includes("Violation"));
    expect(violations.filter((line) => !line.includes("agents.call."))).toEqual([]);
    expect(violations.filter((line) => line.includes("user:reader")).length).toBeGreaterThan(0);
  });

  test("a process reports the broker's durability at /readyz, as the server states it", async () => {
    expect(host.lines.find((line) => line.message === "durability of the broker")).toMatchObject({
      durability: "acknowledged is on disk (1 copy: lost with its disk)",
    });
    const { gateway } = installation;
    expect(await gateway.metric("agents_broker_durable")).toBe(1);
    expect(await gateway.metric("agents_broker_round_trip_seconds")).toBeGreaterThan(0);
  });
});

const API = "$JS.API";
const STREAMS = [
  "agents_INBOX",
  "agents_TIMERS",
  "agents_JOURNAL",
  "agents_SNAPSHOTS",
  "agents_DEAD",
  "agents_BODIES",
  "KV_agents_LEASES",
  "KV_agents_GATEWAYS",
  "OBJ_agents_BLOBS",
];
/** These verbs for every stream. */
const each = (...verbs: ReadonlyArray<string>): ReadonlyArray<string> =>
  verbs.flatMap((verb) => STREAMS.map((stream) => `${API}.${verb}.${stream}`));
/** What a process at the edge may not do, so that an intruder can only add inputs. */
const EDGE: ReadonlyArray<string> = [
  "agents.journal.Ledger.one",
  "agents.snapshot.Ledger.one",
  "agents.dead.Ledger.one",
  "agents.state.Ledger.one",
  "agents.erase.Ledger.one",
  "agents.control.1.Ledger.one",
  "agents.timer.1.Ledger.one.t",
  "agents.due.1.Ledger.one",
  "agents.gateway.another.frame",
  "agents.answer.gateway.token.1",
  "agents.answer.mail.token.1",
  "agents.answer.cli.token.1",
  "_INBOX.agents.host.token.1",
  "_INBOX.agents.gateway.token.1",
  "_INBOX.agents.mail.token.1",
  "$KV.agents_LEASES.shard.1",
  "$KV.agents_LEASES.host.h1",
  "$KV.agents_LEASES.gateway.g1",
  "$KV.agents_GATEWAYS.shard.1",
  "$O.agents_BLOBS.C.1",
  "$O.agents_BLOBS.M.1",
  ...each("STREAM.PURGE", "STREAM.MSG.DELETE", "STREAM.DELETE", "STREAM.UPDATE", "STREAM.CREATE"),
  `${API}.STREAM.CREATE.agents_MORE`,
  `${API}.STREAM.SNAPSHOT.agents_JOURNAL`,
  `${API}.STREAM.LEADER.STEPDOWN.agents_JOURNAL`,
  `${API}.CONSUMER.CREATE.agents_INBOX.thief`,
  `${API}.CONSUMER.CREATE.agents_INBOX`,
  `${API}.CONSUMER.DURABLE.CREATE.agents_INBOX.thief`,
  `${API}.CONSUMER.MSG.NEXT.agents_INBOX.thief`,
  `${API}.CONSUMER.DELETE.agents_INBOX.thief`,
  `${API}.CONSUMER.NAMES.agents_INBOX`,
  `${API}.CONSUMER.CREATE.agents_TIMERS.due-relay`,
  `${API}.CONSUMER.MSG.NEXT.agents_TIMERS.due-relay`,
  `${API}.CONSUMER.CREATE.agents_JOURNAL`,
  "$JS.ACK.agents_INBOX.shard-1.1.1.1.1.0",
  "$JS.ACK.agents_TIMERS.due-relay.1.1.1.1.0",
  ...[
    "agents_INBOX",
    "agents_TIMERS",
    "agents_JOURNAL",
    "agents_SNAPSHOTS",
    "agents_DEAD",
    "OBJ_agents_BLOBS",
  ].flatMap((stream) => [`${API}.STREAM.MSG.GET.${stream}`, `${API}.DIRECT.GET.${stream}`]),
  `${API}.DIRECT.GET.agents_JOURNAL.agents.journal.Ledger.one`,
  `${API}.DIRECT.GET.KV_agents_LEASES`,
  `${API}.DIRECT.GET.KV_agents_GATEWAYS`,
  `${API}.DIRECT.GET.agents_BODIES`,
  "other.inbox.1.Ledger.one",
];
/** Where hosts answer questions over all agents. */
const QUESTIONS = "agents.control.1.=24agents_query.all";
/** What no process but the named ones may publish to. */
const FORBIDDEN: ReadonlyArray<readonly [User, string, ReadonlyArray<string>]> = [
  ["gateway", "do anything but add inputs, call agents and keep its lease", [...EDGE, QUESTIONS]],
  [
    "mail",
    "do anything but add inputs and call agents",
    [
      ...EDGE,
      QUESTIONS,
      "$KV.agents_GATEWAYS.gateway.g1",
      `${API}.STREAM.MSG.GET.KV_agents_LEASES`,
      `${API}.CONSUMER.CREATE.KV_agents_LEASES`,
      `${API}.CONSUMER.DELETE.KV_agents_LEASES.c`,
    ],
  ],
  [
    "host",
    "create, change, purge or remove a stream of journals, forge an ack, or touch another namespace",
    [
      ...each("STREAM.DELETE", "STREAM.UPDATE", "STREAM.CREATE"),
      `${API}.STREAM.PURGE.agents_INBOX`,
      `${API}.STREAM.PURGE.agents_JOURNAL`,
      `${API}.STREAM.PURGE.agents_BODIES`,
      `${API}.STREAM.MSG.DELETE.agents_JOURNAL`,
      `${API}.STREAM.MSG.DELETE.agents_INBOX`,
      "_INBOX.agents.host.token.1",
      "agents.due.1.Ledger.one",
      "agents.erase.Ledger.one",
      "agents.snapshot.+base.Ledger.one",
      "agents.snapshot.1.+base.Ledger.one",
      `${API}.STREAM.CREATE.other_JOURNAL`,
      `${API}.STREAM.INFO.other_JOURNAL`,
      `${API}.DIRECT.GET.other_JOURNAL`,
      `${API}.CONSUMER.CREATE.other_INBOX.thief`,
      "other.journal.Ledger.one",
      "other.inbox.1.Ledger.one",
      "other.call.1.Ledger.one",
      "$KV.other_LEASES.shard.1",
      "$SYS.REQ.SERVER.PING.CONNZ",
    ],
  ],
  [
    "retention",
    "write a journal or a host's snapshot, own a shard, or purge anything but journals and blobs",
    [
      ...each("STREAM.DELETE", "STREAM.UPDATE", "STREAM.CREATE"),
      ...[
        "agents_INBOX",
        "agents_TIMERS",
        "agents_SNAPSHOTS",
        "agents_DEAD",
        "KV_agents_LEASES",
      ].map((stream) => `${API}.STREAM.PURGE.${stream}`),
      `${API}.STREAM.MSG.DELETE.agents_JOURNAL`,
      "agents.journal.Ledger.one",
      "agents.snapshot.Ledger.one",
      "agents.inbox.1.Ledger.one",
      "agents.call.1.Ledger.one",
      "$KV.agents_LEASES.shard.1",
      "$KV.agents_LEASES.host.h1",
    ],
  ],
  [
    "reader",
    "write anything",
    [
      ...EDGE.filter((subject) => !subject.includes(".GET.")),
      "agents.inbox.1.Ledger.one",
      "agents.body.entry.1",
      "agents.call.1.Ledger.one",
      "agents.answer.host.token.1",
      "$KV.agents_GATEWAYS.gateway.g1",
    ],
  ],
  [
    "operator",
    "touch another namespace, or forge an ack",
    [
      `${API}.STREAM.DELETE.other_JOURNAL`,
      "other.journal.Ledger.one",
      "_INBOX.agents.host.token.1",
    ],
  ],
];

/** What passes by between others. */
const LISTENING = [
  "agents.journal.>",
  "agents.inbox.>",
  "agents.call.>",
  "agents.control.>",
  "agents.body.>",
  "agents.answer.>",
  "agents.answer.*.*.*",
  "agents.state.>",
  "_INBOX.>",
  "_INBOX.*.*.*.*",
  "$KV.>",
  "$JS.ACK.>",
  ">",
];

describe("the server refuses everything else", () => {
  test.each(FORBIDDEN)("the %s can't %s", async (user, _what, subjects) => {
    expect(await refusals(user, "publish", subjects)).toEqual(subjects);
  });

  test.each<readonly [User, ReadonlyArray<string>]>([
    [
      "gateway",
      [
        ...LISTENING,
        "_INBOX.agents.host.>",
        "_INBOX.agents.mail.>",
        "agents.answer.host.>",
        "agents.answer.mail.>",
      ],
    ],
    [
      "mail",
      [
        ...LISTENING,
        "agents.gateway.*.*",
        "agents.gateway.g1.frame",
        "agents.gateway.g1.reply",
        "_INBOX.agents.host.>",
        "_INBOX.agents.gateway.>",
        "agents.answer.host.>",
        "agents.answer.gateway.>",
      ],
    ],
    [
      "host",
      [
        "agents.inbox.>",
        "_INBOX.agents.gateway.>",
        "agents.answer.gateway.>",
        "agents.answer.cli.>",
        "other.>",
      ],
    ],
    [
      "reader",
      [
        "agents.call.>",
        "agents.control.>",
        "agents.inbox.>",
        "agents.gateway.*.*",
        "_INBOX.agents.host.>",
        "agents.answer.>",
      ],
    ],
    ["operator", ["agents.>", "agents.gateway.*.*", "agents.answer.host.>", "other.>"]],
  ])("the %s can't listen to others' answers", async (user, subjects) => {
    expect(await refusals(user, "subscribe", subjects)).toEqual(subjects);
  });

  test("a host may accept sockets for its agents' code", async () => {
    expect(await refusals("host", "publish", ["$KV.agents_GATEWAYS.gateway.h1"])).toEqual([]);
    const own = ["agents.gateway.h1.frame", "agents.gateway.h1.census"];
    expect(await refusals("host", "subscribe", own)).toEqual([]);
  });

  test("objects that handlers pass by reference can be called by hosts, and by no other process", async () => {
    expect(await refusals("host", "publish", ["agents.process.g1"])).toEqual([]);
    for (const user of ["gateway", "mail", "host"] as const)
      expect(await refusals(user, "subscribe", ["agents.process.p1"])).toEqual([]);
    for (const user of ["gateway", "mail", "reader"] as const)
      expect(await refusals(user, "publish", ["agents.process.g1"])).toEqual(["agents.process.g1"]);
  });

  test("a command for another namespace, or with another's login, ends at once and says so", async () => {
    const hint = "is the namespace right, and is it the login for this process";
    for (const command of [["list"], ["dead", "list"]]) {
      const run = await cli("reader", ...command, "--namespace", "other");
      expect(run.text).toContain("the login may not use _INBOX.other.");
      expect(run).toMatchObject({ code: 1, text: expect.stringContaining(hint) as string });
    }
    const run = await cli("gateway", "provision");
    expect(run.text).toContain("the login may not use _INBOX.agents.");
    expect(run).toMatchObject({ code: 1, text: expect.stringContaining(hint) as string });
  });

  test("permissions refuse only what is forbidden: what is allowed is stored", async () => {
    const client = await nats.connect("operator");
    const ack = await client.request("agents.dead.Ledger.nobody", "{}", {
      timeout: REQUEST_TIMEOUT_MS,
    });
    expect(ack.json()).toMatchObject({ stream: "agents_DEAD", seq: 1 });
    await client.close();
  });
});
