/** `agents erase` against two hosts and a real nats-server: what is left of an agent. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentId, shardOf, type AgentId } from "../../schemas/Address.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const MODULE = fileURLToPath(new URL("./keeperModule.ts", import.meta.url));
const SHARDS = 2;
/** A text in everything that the agents receive, by which stored copies are found. */
const MARKER = "MARKER-of-what-must-go";
const KEPT = "what-another-agent-keeps";
/** Past it: inputs and their events become blobs. */
const PAYLOAD_BYTES_MAX = 1024 * 1024;
const LARGE_BYTES = 3 * PAYLOAD_BYTES_MAX;

let installation: Installation;
let ports: Installation["ports"];
let nats: Installation["nats"];
let call: ReturnType<Installation["caller"]>;
const hosts: AgentsProcess[] = [];

const agents = (...args: string[]) => installation.agents(...args);
/** Files of its hosts that hold the text. */
const hostFilesWith = (text: string): string[] => filesWith(installation.pathOf(""), text);

const startHost = async (name: string): Promise<AgentsProcess> => {
  const host = await installation.startHost(name);
  hosts.push(host);
  await host.ready();
  return host;
};

/** Files below a folder that hold the text. */
function filesWith(path: string, text: string): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    if (entry.isFile() && readFileSync(file).includes(text)) found.push(file.slice(path.length));
  }
  return found;
}

/** Subjects of all streams with a message that holds the text. */
async function streamsWith(text: string): Promise<string[]> {
  const connection = await openConnection({ servers: nats.url }, () => undefined);
  try {
    const { reader, api } = await openNats(connection, new Subjects());
    const { streams } = await api.call<{ streams: string[] }>("STREAM.NAMES");
    const found: string[] = [];
    for (const stream of streams)
      for await (const { subject, data } of reader.messages(stream, ">", { fromSeq: 1 }))
        if (Buffer.from(data).includes(text)) found.push(subject);
    return found;
  } finally {
    await connection.close();
  }
}

/** Passes `text` to an agent of each shard, in every possible way. */
async function fill(name: string, text: string): Promise<AgentId> {
  const id = agentId("Keeper", name);
  for (let n = 0; n < 40; n++) await call(name, "note", `${text} ${n}`);
  await call(name, "plan", 3_600, `${text} later`);
  await call(name, "enqueue", `${text} dies`);
  await installation.publish(id, { key: `${name}:small` }, `${text} by webhook`);
  await installation.publish(id, { key: `${name}:large` }, text + "x".repeat(LARGE_BYTES));
  return id;
}

/** An input that waits forever, in a shard that no host claims. */
const NOBODYS = "agents.inbox.99.Keeper.nobody";
async function withNats(use: (nats: NatsShape) => Promise<unknown>): Promise<void> {
  const connection = await openConnection({ servers: nats.url }, () => undefined);
  try {
    await use(await openNats(connection, new Subjects()));
  } finally {
    await connection.close();
  }
}

const namesOfShards = Array.from({ length: SHARDS }, (_, shard) => {
  for (let n = 0; ; n++)
    if (shardOf(agentId("Keeper", `keeper-${n}`), SHARDS) === shard) return `keeper-${n}`;
});

beforeAll(async () => {
  installation = await Installation.start({
    shards: SHARDS, leaseTtlMs, module: MODULE, gateway: false, maxPayload: PAYLOAD_BYTES_MAX,
  }); // prettier-ignore
  ({ nats, ports } = installation);
  call = installation.caller("Keeper");
  await startHost("one");
  await fill("another", KEPT);
  await withNats(({ publisher }) => publisher.publish(NOBODYS, new Uint8Array(1)));
  for (const name of namesOfShards) await fill(name, MARKER);
  await pollUntil("the agents have left memory and are in local files", () => {
    const files = hostFilesWith(MARKER).filter((file) => file.endsWith(".image"));
    return files.length === SHARDS || { done: false, saw: files };
  });
  // One shard moves to it. The first host's local files of that shard's agent stay.
  await startHost("two");
  for (const name of namesOfShards) await call(name, "note", `${MARKER} once more`);
});

afterAll(() => installation?.stop());

describe("agents erase", () => {
  it("requires --yes, and says what would be lost", async () => {
    const asked = await agents("erase", "Keeper", namesOfShards[0]!);
    expect(asked.code).toBe(2);
    expect(asked.err).toContain("--yes");
    expect((await streamsWith(MARKER)).length).toBeGreaterThan(10);
  });

  it("removes everything of an agent on a running installation, and nothing of another", async () => {
    const before = await streamsWith(KEPT);
    for (const name of namesOfShards) {
      const erased = await agents("erase", "keeper", name, "--yes", "--json");
      expect(erased.code).toBe(0);
      const told = JSON.parse(erased.out) as Record<string, unknown>;
      expect(told).toMatchObject({ class: "Keeper", name, lives: false, silent: [] });
      const logs = hosts.map((host) => host.told()).join("\n");
      expect(told["hosts"], `hosts: ${erased.out}; the two say: ${logs}`).toHaveLength(2);
      expect(told["removed"]).toMatchObject({ timers: 1, deadLetters: 1, blobs: 1 });
    }
    expect(await streamsWith(MARKER)).toEqual([]);
    expect(hostFilesWith(MARKER)).toEqual([]);
    expect(await streamsWith(KEPT)).toEqual(before);
    expect(await call("another", "all")).toMatchObject({ state: { notes: 42 } });
  });

  it("leaves on the broker's disk only finished inputs behind a waiting one, and reports them", async () => {
    const inBlocks = () =>
      filesWith(nats.storeDir, MARKER).map((file) => /streams\/(\w+)\//.exec(file)?.[1]);
    expect(new Set(inBlocks())).toEqual(new Set(["agents_INBOX"]));
    const again = await agents("erase", "Keeper", namesOfShards[0]!, "--yes");
    expect(again).toMatchObject({ code: 0 });
    expect(again.err).toContain("Older messages of other agents wait in the inbox");
    await withNats(({ api }) => api.call("STREAM.PURGE.agents_INBOX", { filter: NOBODYS }));
    // Nothing waits then.
    expect((await agents("erase", "Keeper", "another", "--yes")).err).toBe("");
    expect(inBlocks()).toEqual([]);
    expect(filesWith(nats.storeDir, KEPT)).toEqual([]);
  });

  it("leaves the name free: the next caller gets a new agent without earlier data", async () => {
    const name = namesOfShards[0]!;
    expect(await call(name, "all")).toEqual({
      state: { notes: 0, last: "", rung: [] },
      notes: [],
      schedules: [],
    });
    expect(await call(name, "note", "anew")).toBe(1);
  });

  it("exits with 3 if there is no such agent", async () => {
    expect((await agents("erase", "Keeper", "nobody", "--yes")).code).toBe(3);
  });

  it("works without hosts; a host that returns with the agent's local files discards them", async () => {
    const name = namesOfShards[1]!;
    await call(name, "note", `${MARKER} in a file`);
    await pollUntil(
      "the agent is in a local file",
      () => hostFilesWith(MARKER).some((file) => file.endsWith(".image")) || undefined,
    );
    for (const host of hosts.splice(0)) await host.stop();
    const erased = await agents("erase", "Keeper", name, "--yes");
    expect(erased).toMatchObject({ code: 0, err: "" });
    expect(await streamsWith(MARKER)).toEqual([]);
    await startHost("one");
    await startHost("two");
    expect(await call(name, "all")).toMatchObject({ notes: [] });
    await pollUntil("its files are gone with the host's look through them", () => {
      const files = hostFilesWith(MARKER);
      return files.length === 0 || { done: false, saw: files };
    });
  });
});

describe("a host that was frozen while its agent was erased", () => {
  it("restores nothing when it is thawed", async () => {
    const name = namesOfShards[0]!;
    const key = `shard.${shardOf(agentId("Keeper", name), SHARDS)}`;
    const ownerOf = async (): Promise<string> =>
      (await ports.leases.list("shard.")).find((lease) => lease.key === key)?.value ?? "";
    const idOf = (host: AgentsProcess) =>
      host.lines.find(({ message }) => message === "host started")?.["host"];
    // Enough events that its hibernation takes a snapshot too.
    for (let n = 0; n < 40; n++) await call(name, "note", `${MARKER} ${n}`);
    const owner = await ownerOf();
    const frozen = hosts.find((host) => idOf(host) === owner)!;
    await call(name, "note", `${MARKER} at last`);
    frozen.freeze();
    try {
      await pollUntil("another host owns the agent", async () => {
        const now = await ownerOf();
        return (now !== "" && now !== owner) || { done: false, saw: now };
      });
      expect((await agents("erase", "Keeper", name, "--yes")).code).toBe(0);
      expect(await streamsWith(MARKER)).toEqual([]);
    } finally {
      frozen.thaw();
    }
    await pollUntil(
      "it has seen that the shard is lost",
      () => frozen.lines.some(({ message }) => message === "shard lost") || undefined,
    );
    await frozen.ready();
    await pollUntil("its file is gone", () => {
      const files = hostFilesWith(MARKER);
      return files.length === 0 || { done: false, saw: files };
    });
    expect(await streamsWith(MARKER)).toEqual([]);
  });
});
