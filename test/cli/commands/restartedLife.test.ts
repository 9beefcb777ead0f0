/** An agent restored from a chain with a trim between: its base begins its life anew. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { beginningOf } from "../../../core/history/pastWebhooks.ts";
import { eventOfBase } from "../../../core/journal/eventOfBase.ts";
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { agentId, type Sequence } from "../../../schemas/Address.ts";
import type { SnapshotHead } from "../../../schemas/Snapshot.ts";
import { makeMemoryJournal } from "../../../services/memory/MemoryJournal.ts";
import { openSqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";
import { CliFixture } from "../fixture.ts";

const ID = agentId("RepoAgent", "restored");
const NATS = ["--nats", "nats://one:4222"];
const STATE = { count: 7 };
const HEAD: SnapshotHead = {
  agent: [ID.class, ID.name],
  seq: 9,
  epoch: 0,
  time: 1,
  state: STATE,
  done: [],
  begun: [],
  pages: 0,
};

let sqlite: Awaited<ReturnType<typeof openSqliteDatabases>>;
let cli: CliFixture;

beforeAll(async () => {
  sqlite = await openSqliteDatabases({ folder: undefined });
  cli = new CliFixture(sqlite.databases);
  const journal = makeMemoryJournal(cli.broker.connect());
  const data = eventOfBase({ head: HEAD, image: new Uint8Array(0) }, { restarts: true });
  const signal = AbortSignal.timeout(1_000);
  const stored = await journal.append(ID, data, { expectedSeq: 0 as Sequence, signal });
  if (stored._tag !== "Stored") throw new Error("not stored");
});
afterAll(() => sqlite?.close());

test("it can be forked there", async () => {
  const forked = await cli.run(["fork", ID.class, ID.name, "copy", ...NATS]);
  expect(forked).toMatchObject({ code: 0, err: "" });
  const copy = await cli.run(["state", ID.class, "copy", ...NATS]);
  expect(JSON.parse(copy.out)).toEqual(STATE);
});

test("its history does not say that it was destroyed", async () => {
  const { out } = await cli.run(["history", ID.class, ID.name, "--json", ...NATS]);
  const line = JSON.parse(out) as object;
  expect(line).toMatchObject({ state: STATE });
  expect(line).not.toHaveProperty("destroyed");
});

test("an input that runs again begins with what the base has", async () => {
  const journal = makeMemoryJournal(cli.broker.connect());
  const rebuilt = await rebuildAgent(ID, { journal, databases: sqlite.databases });
  try {
    expect(await beginningOf(journal, rebuilt)).toBeDefined();
  } finally {
    rebuilt.database.close();
  }
});
