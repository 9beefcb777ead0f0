/**
 * Logins of `deploy/nats` in the wrong hands, against hosts that run: what each may make a host do.
 * What the broker itself refuses them is `test/deploy/permissions`.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { QUESTIONS } from "../../core/query/askHosts.ts";
import { shardOf } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { deployNats, type Deployed, type User } from "../deploy/DeployedNats.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { ANSWERED_BY_AGENT, Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { postLedger } from "../kit/postLedger.ts";

const SHARDS = 4;
/** More than these processes need to start on a busy machine. */
const START_MS = 60_000;
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
    const answer = await operator.request(`$JS.API.STREAM.INFO.${stream}`);
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
  const subject = subjects.call(shardOf(QUESTIONS, SHARDS), QUESTIONS);
  const data = encodeMessage<Call>({ kind: "erase" });

  test.each<User>(["reader", "gateway"])("is none that the %s itself may not use", async (user) => {
    const thief = await thiefAs(user);
    const before = await numbersOf(STREAMS);
    const seen = dropped().length;
    for (const reply of TARGETS) thief.publish(subject, data, { reply });
    await thief.flush();
    await pollUntil("the host has dropped them", () => dropped().length > seen);
    // Answered last, on the same connection.
    await thief.request(subject, data);
    expect(await numbersOf(STREAMS)).toEqual(before);
  });
});
