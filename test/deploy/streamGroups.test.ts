/** Four stream groups under the permissions of `deploy/nats`, rewritten as their comment says. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ANSWERED_BY_AGENT, Installation, type Role } from "../kit/Installation.ts";
import { postLedger } from "../kit/postLedger.ts";
import { deployNats, type Deployed, type User } from "./DeployedNats.ts";
import { STREAM_GROUPS, withStreamGroups } from "./withStreamGroups.ts";

/** Enough that each of eight shards has some. */
const AGENTS = Array.from({ length: 40 }, (_, n) => `agent-${n}`);

let nats: Deployed;
let installation: Installation;

const cli = async (role: Role, ...args: string[]): Promise<{ code: number; text: string }> => {
  const { code, out, err } = await installation.agentsAs(role, ...args);
  return { code, text: out + err };
};

const sendWebhook = (agent: string): Promise<number> =>
  postLedger(installation.gateway.url, { agent, id: `w-${agent}` });
const client = (user: User) => nats.connect(user);

beforeAll(async () => {
  nats = await deployNats({ config: "single.conf", edit: withStreamGroups });
  const groups = ["--stream-groups", `${STREAM_GROUPS}`];
  installation = await Installation.start({
    broker: nats,
    shards: 8,
    provision: groups,
    args: ["--require-durable", ...groups],
    env: ANSWERED_BY_AGENT,
  });
  expect(installation.provisioned).toContain("8 shards in 4 stream groups");
  await installation.startHost("host");
  await installation.gateway.ready();
});

afterAll(() => installation?.stop());

describe("four stream groups under least privilege", () => {
  test("webhooks of agents in every group are stored and answered", async () => {
    for (const agent of AGENTS) expect(await sendWebhook(agent)).toBe(200);
    const operator = await client("operator");
    const counts: number[] = [];
    for (const end of ["", "_1", "_2", "_3"]) {
      const answer = await operator.request(`$JS.API.STREAM.INFO.agents_JOURNAL${end}`);
      counts.push(answer.json<{ state: { messages: number } }>().state.messages);
    }
    await operator.close();
    expect(counts.every((count) => count > 0)).toBe(true);
  });

  test("list, history and state see the agents of all groups", async () => {
    const list = await cli("reader", "list", "Ledger", "--json");
    for (const agent of AGENTS) expect(list.text).toContain(`"${agent}"`);
    expect((await cli("reader", "history", "Ledger", AGENTS[7]!)).text).toContain("github");
    expect((await cli("reader", "state", "Ledger", AGENTS[8]!)).text).toContain('"count": 1');
  });

  test("the operator erases an agent: its host ends it, and its data in the group is gone", async () => {
    const erased = await cli("operator", "erase", "Ledger", AGENTS[9]!, "--yes");
    expect(erased).toMatchObject({ code: 0 });
    expect(erased.text).toContain("Local files were removed from host-");
    expect((await cli("reader", "state", "Ledger", AGENTS[9]!)).text).not.toContain("count");
    expect((await cli("reader", "history", "Ledger", AGENTS[9]!)).text).toContain("destroyed");
    expect((await cli("operator", "export", "Ledger", AGENTS[10]!)).code).toBe(0);
  });

  test("the reader backs up all groups", async () => {
    const saved = installation.pathOf("backup");
    const backup = await cli("reader", "backup", saved, "--json");
    expect(backup).toMatchObject({ code: 0 });
    expect(Number((JSON.parse(backup.text) as { events: number }).events)).toBeGreaterThan(39);
  });

  test("a process with another number of groups does not start, and says what to do", async () => {
    const wrong = await cli("operator", "provision", "--stream-groups", "2");
    expect(wrong).toMatchObject({ code: 1 });
    expect(wrong.text).toContain("--stream-groups 4");
    expect(wrong.text).toContain("agents export");
  });

  test("the server refuses none of this", () => {
    const lines = nats.servers[0]!.log().split("\n");
    expect(lines.filter((line) => line.includes("Violation"))).toEqual([]);
  });

  test.each<readonly [User, ReadonlyArray<string>]>([
    ["gateway", ["$JS.API.CONSUMER.CREATE.agents_INBOX_2.thief", "agents.journal.1.Ledger.one"]],
    ["host", ["$JS.API.STREAM.PURGE.agents_JOURNAL_1", "$JS.API.STREAM.INFO.other_JOURNAL_1"]],
    ["reader", ["$JS.API.STREAM.PURGE.agents_SNAPSHOTS_3", "agents.journal.1.Ledger.one"]],
  ])("the %s has the same rights in a group as with a single group", async (user, subjects) => {
    const connection = await client(user);
    const refused: string[] = [];
    const reading = (async () => {
      for await (const status of connection.status())
        if (status.type === "error")
          refused.push(/"(.*)"/.exec(String(status.error))?.[1] ?? "unnamed");
    })();
    for (const subject of subjects) connection.publish(subject, "{}");
    await connection.flush();
    await connection.close();
    await reading;
    expect(refused).toEqual(subjects);
  });
});
