/** Ctrl-C in the middle of `agents import`: the agent is there in part, and the command says so. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, type Sequence } from "../../../schemas/Address.ts";
import { agentFileEnd, agentFileEvent, agentFileHead } from "../../../schemas/AgentFile.ts";
import { encodeEvent } from "../../../schemas/JournalEvent.ts";
import { openReader, provisionTarget } from "../../../services/wiring/joinReader.ts";
import { startNats, type TestNats } from "../../kit/natsServer.ts";
import { pollUntil } from "../../kit/poll.ts";
import { tempFolder } from "../../kit/tempFolder.ts";

const MAIN = new URL("../../../dist/services/cli/main.js", import.meta.url).pathname;
const ID = agentId("Book", "long");
/** They take seconds: each is a round trip. */
const EVENTS = 40_000;

const folder = tempFolder("interrupted-import");
let nats: TestNats;
let ports: Awaited<ReturnType<typeof openReader>>;

beforeAll(async () => {
  nats = await startNats();
  const target = { natsUrl: nats.url, namespace: "agents" };
  await provisionTarget(target, { shards: 1, replicas: 1, leaseTtlMs: undefined });
  ports = await openReader(target, { sql: false });
});
afterAll(async () => {
  await ports?.close();
  await nats?.stop();
  folder.remove();
});

test("says that the agent may be stored in part, and what to do", async () => {
  const lines = [agentFileHead(ID, 1)];
  for (let n = 1; n <= EVENTS; n++) {
    const data = encodeEvent({
      id: `e${n}`, agent: [ID.class, ID.name], kind: "turns", host: "h", epoch: 1, time: n,
      turns: [{ cause: { kind: "rpc" }, state: { set: n } }],
    }); // prettier-ignore
    lines.push(agentFileEvent({ seq: n as Sequence, storedMs: n, data }));
  }
  const file = join(folder.path, "agent.jsonl");
  writeFileSync(file, `${[...lines, agentFileEnd(EVENTS)].join("\n")}\n`);
  const env = { PATH: process.env["PATH"] ?? "", NATS_URL: nats.url };
  const child = spawn(process.execPath, [MAIN, "import", file], { env });
  let said = "";
  child.stderr.on("data", (text) => (said += String(text)));
  const ended = once(child, "close");
  await pollUntil("it writes", async () => (await ports.journal.last(ID)) !== undefined);
  child.kill("SIGINT");
  expect((await ended)[0]).toBe(130);
  expect(said).toContain(
    'Interrupted. Book/long may be stored in part: if "agents list" shows it, erase it',
  );
  const { seq } = (await ports.journal.last(ID))!;
  expect(seq).toBeLessThan(EVENTS);
});
