/** Logins of `deploy/nats` in the wrong hands, against hosts; see `test/deploy/permissions`. */
import type { NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { QUESTIONS } from "../../core/query/askHosts.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { plain } from "../../services/nats/client/ReplyInbox.ts";
import { deployNats, type Deployed, type User } from "../deploy/DeployedNats.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { ANSWERED_BY_AGENT, Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { postLedger } from "../kit/postLedger.ts";

const SHARDS = 4;
/** More than these processes need to start on a busy machine. */
const START_MS = 60_000;
/** A busy machine takes more than the client's second. */
const ANSWERED = { timeout: 20_000 };
const subjects = new Subjects();

let nats: Deployed;
let installation: Installation;
let host: AgentsProcess;
const clients: NatsConnection[] = [];

beforeAll(async () => {
  nats = await deployNats({ config: "single.conf" });
  installation = await Installation.start({
    broker: nats,
    shards: SHARDS,
    env: ANSWERED_BY_AGENT,
  });
  host = await installation.startHost("host");
  await installation.gateway.ready();
  for (const agent of ["one", "two"])
    expect(await postLedger(installation.gateway.url, { agent, id: `w-${agent}` })).toBe(200);
}, START_MS);

afterAll(async () => {
  for (const client of clients) await client.close();
  await installation?.stop();
});

/** A plain client. It receives answers where the user may. */
async function thiefAs(user: User): Promise<NatsConnection> {
  const role = user === "reader" ? "cli" : user;
  const thief = await nats.connect(user, { inboxPrefix: `agents.answer.${role}.thief` });
  clients.push(thief);
  return thief;
}

const numbersOf = async (streams: ReadonlyArray<string>): Promise<Record<string, number>> => {
  const operator = await nats.connect("operator");
  clients.push(operator);
  const found: Record<string, number> = {};
  for (const stream of streams) {
    const answer = await operator.request(`$JS.API.STREAM.INFO.${stream}`, "", ANSWERED);
    found[stream] = answer.json<{ state: { last_seq: number } }>().state.last_seq;
  }
  return found;
};

describe("the subject on which a request wants its answer", () => {
  /** What hosts may publish to, or have purged. */
  const TARGETS = [
    "agents.journal.Ledger.one",
    "agents.snapshot.Ledger.one",
    "agents.dead.Ledger.one",
    "agents.inbox.1.Ledger.one",
    "agents.body.entry.forged",
    "$O.agents_BLOBS.M.forged",
    "$JS.API.STREAM.PURGE.OBJ_agents_BLOBS",
  ];
  /** Not the leases', which their owners renew meanwhile. */
  const STREAMS = [
    "agents_JOURNAL",
    "agents_SNAPSHOTS",
    "agents_DEAD",
    "agents_INBOX",
    "agents_BODIES",
    "OBJ_agents_BLOBS",
  ];
  const dropped = () => host.lines.filter(({ message }) => message?.includes("was dropped"));
  const data = encodeMessage<Call>({ kind: "state" });

  const shard = shardOf(QUESTIONS, SHARDS);
  test.each<readonly [User, string]>([
    ["reader", subjects.control(shard, QUESTIONS)],
    ["gateway", subjects.call(shard, QUESTIONS)],
  ])("is none that the %s itself may not use", async (user, subject) => {
    const thief = await thiefAs(user);
    const before = await numbersOf(STREAMS);
    const seen = dropped().length;
    for (const reply of TARGETS) thief.publish(subject, data, { reply });
    await thief.flush();
    await pollUntil("the host has dropped them", () => dropped().length > seen);
    // Answered last, on the same connection.
    await thief.request(subject, data, ANSWERED);
    expect(await numbersOf(STREAMS)).toEqual(before);
  });
});

describe.each<User>(["gateway", "mail"])("the user %s", (user) => {
  const id = agentId("Ledger", "two");
  const question = { sql: "SELECT name, state FROM Ledger", values: [], seconds: 5 } as const;
  let thief: NatsConnection;
  beforeAll(async () => void (thief = await thiefAs(user)));

  async function ask(call: Call, to = id): Promise<CallReply> {
    const answer = await thief.request(
      subjects.call(shardOf(to, SHARDS), to),
      encodeMessage(call),
      ANSWERED,
    );
    return decodeMessage<CallReply>(plain(answer.data)).head;
  }

  test("calls agents and reads their states, as a module's handlers do", async () => {
    expect(await ask({ kind: "state" })).toMatchObject({ kind: "state", state: { count: 1 } });
  });

  test.each<Call>([
    { kind: "erase" },
    { kind: "end" },
    { kind: "abort", reason: "stolen" },
    { kind: "release" },
    { kind: "restore", key: "stolen", life: 0 },
    { kind: "child", op: "forget", className: "Ledger", name: "sub" },
    { kind: "usage" },
    { kind: "connections", skip: 0, limit: 1 },
    { kind: "query", ...question },
  ])("can't make a host take a call of kind $kind", async (call) => {
    const message = expect.stringContaining("does not arrive on this subject") as string;
    expect(await ask(call)).toMatchObject({ kind: "error", message });
    expect(await ask(call, QUESTIONS)).toMatchObject({ kind: "error", message });
    expect(await ask({ kind: "state" })).toMatchObject({ kind: "state", state: { count: 1 } });
  });
});

test("the reader asks hosts only questions", async () => {
  const thief = await thiefAs("reader");
  const subject = subjects.control(shardOf(QUESTIONS, SHARDS), QUESTIONS);
  for (const kind of ["erase", "usage", "release"] as const) {
    const answer = await thief.request(subject, encodeMessage<Call>({ kind }), ANSWERED);
    const { head } = decodeMessage<CallReply>(plain(answer.data));
    expect(head).toMatchObject({ kind: "error", message: "Internal Server Error" });
  }
});
