/** `agents erase` on three nats-servers, one unreachable: it asks first, and its remedy works. */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { openReader } from "../../services/wiring/joinReader.ts";
import { deployNats, type Deployed, type DeployedServer } from "../deploy/DeployedNats.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";

const MARKER = "MARKER-of-what-must-go";
const ID = agentId("Keeper", "one");

let nats: Deployed;
const agents = (...args: string[]) => runAgents(args, { NATS_URL: nats.url("operator") });

/** Those of a server's streams whose files hold the text. Raft logs are rewritten by themselves. */
function streamsWith({ storeDir }: DeployedServer, text: string): string[] {
  const found = new Set<string>();
  for (const entry of readdirSync(storeDir, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const stream = /\/streams\/(\w+)\//.exec(path)?.[1];
    if (stream !== undefined && entry.isFile() && readFileSync(path).includes(text))
      found.add(stream);
  }
  return [...found].toSorted();
}

/** An event and an input that waits, with the marker in them. */
async function fill(): Promise<void> {
  const ports = await openReader({ natsUrl: nats.url("operator"), namespace: "agents" });
  const signal = AbortSignal.timeout(10_000);
  const head = { key: "k", kind: "webhook", time: 1, url: "http://x/", method: "POST" } as const;
  const input = encodeEnvelope(head, new TextEncoder().encode(MARKER));
  expect((await ports.inbox.publish(ID, input, { signal }))._tag).toBe("Stored");
  const turn = { cause: { kind: "webhook", body: MARKER }, state: { set: { note: MARKER } } };
  const event = encodeEvent({
    id: "e", agent: [ID.class, ID.name], kind: "turns", host: "h", epoch: 1, time: 1, turns: [turn as never],
  }); // prettier-ignore
  const how = { expectedSeq: 0 as Sequence, signal };
  expect((await ports.journal.append(ID, event, how))._tag).toBe("Stored");
  await ports.close();
}

beforeAll(async () => {
  nats = await deployNats({ config: "cluster.conf" });
  expect(await agents("provision", "--shards", "1", "--replicas", "3")).toMatchObject({ code: 0 });
  await fill();
});
afterAll(async () => {
  await nats?.stop();
});

test("an erasure while one of three servers is away needs confirmation, says so, and is completed as it says", async () => {
  const third = nats.servers[2]!;
  const kept = ["agents_INBOX", "agents_JOURNAL"];
  await pollUntil("the third has its copies", () => {
    const found = streamsWith(third, MARKER);
    return found.length === kept.length || { done: false, saw: found };
  });
  await third.kill();
  await pollUntil("the others have elected, and the command says who is away", async () => {
    const { code, err } = await agents("erase", "Keeper", "one", "--yes");
    return (code === 1 && err.includes(`${third.name} has copies`)) || { done: false, saw: err };
  });
  expect(streamsWith(nats.servers[0]!, MARKER)).toEqual(kept);

  const erased = await agents("erase", "Keeper", "one", "--yes", "--while-away");
  expect(erased.out).toContain("is erased: 1 event, 1 input");
  expect(erased.err).toContain(`${third.name} was unreachable`);
  for (const server of nats.servers.slice(0, 2)) expect(streamsWith(server, MARKER)).toEqual([]);
  expect(streamsWith(third, MARKER)).toEqual(kept);

  rmSync(third.storeDir, { recursive: true });
  await third.start();
  await nats.healthy();
  const again = await pollUntil("it has copied everything", async () => {
    const told = await agents("erase", "Keeper", "one", "--yes");
    return told.code === 0 ? { done: true, value: told } : { done: false, saw: told.err };
  });
  expect(again.err).toBe("");
  expect(streamsWith(third, MARKER)).toEqual([]);
});
