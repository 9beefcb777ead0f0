/** What the event that puts an agent back changes, and what it leaves as it is. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { decodeSnapshot } from "../../schemas/Snapshot.ts";
import type { AgentDatabase } from "../../core/database/Databases.ts";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { replayEvent } from "../../core/journal/rebuildAgent.ts";
import { keepSent } from "../../core/restore/keepSent.ts";
import { restoreEvent } from "../../core/restore/restoreEvent.ts";
import { BudgetExceeded } from "../../core/budget/Budget.ts";
import { Budgets } from "../../core/budget/Budgets.ts";
import { QueueTable } from "../../core/queue/QueueTable.ts";
import { EXPIRY_ALARM } from "../../core/schedule/ownAlarms.ts";
import { ScheduleTable } from "../../core/schedule/ScheduleTable.ts";
import { Turn } from "../../core/turn/Turn.ts";
import { CronParser } from "../../services/cronParser/CronParser.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";

const ID = agentId("Ledger", "one");
let opened: Awaited<ReturnType<typeof openSqliteDatabases>>;
beforeAll(async () => {
  opened = await openSqliteDatabases({ folder: undefined });
});
afterAll(() => opened.close());

function commit(database: AgentDatabase): Uint8Array {
  if (database.freeze() !== undefined) database.committed();
  return database.image();
}

/** Of the fibers `then` and `now`, and of a workflow: id, key, status, type of its event. */
const APPROVALS = new Map([
  [
    "then",
    [
      ["refund", '"then" refund', "waiting", null],
      ["moved", '"then" moved', "waiting", null],
      ["ended", '"then" ended', "waiting", null],
      ["step", "step", "waiting", "approval step"],
    ],
  ],
  [
    "now",
    [
      ["refund", '"then" refund', "approved", null],
      ["moved", '"now" moved', "waiting", null],
      ["ended", '"then" ended', "withdrawn", null],
      ["later", '"now" later', "waiting", null],
      ["decided", '"now" decided', "rejected", null],
      ["step", "step", "waiting", "approval step"],
    ],
  ],
] as const);

/** Spends of the budget "tokens", of which there are 100 a day. */
function spend(database: AgentDatabase, amount: number): void {
  let ids = 0;
  const budgets = new Budgets(
    {
      id: ID,
      database,
      query: (sql: string, params: never) => database.query(sql, params),
      time: { nowMs: () => 1_000, id: () => `${amount} ${++ids}` },
      turn: () => new Turn({ cause: { kind: "background" }, owner: {} }),
      emit: () => undefined,
      parts: { jobs: { cron: new CronParser() } },
    } as never,
    false,
  );
  budgets.spend("tokens", amount, { limit: 100, per: "day" }).settle(amount);
}

function fill(database: AgentDatabase, when: "then" | "now"): void {
  database.query("CREATE TABLE IF NOT EXISTS notes (text TEXT)", []);
  database.query("INSERT INTO notes VALUES (?)", [when]);
  spend(database, when === "then" ? 10 : 80);
  database.query(
    "CREATE TABLE IF NOT EXISTS cf_agents_fibers (fiber_id TEXT PRIMARY KEY, owed INTEGER)",
    [],
  );
  database.query("DELETE FROM cf_agents_fibers", []);
  database.query("INSERT INTO cf_agents_fibers VALUES (?, 1)", [when]);
  database.query(
    "CREATE TABLE IF NOT EXISTS cf_agents_approvals (id TEXT PRIMARY KEY, key TEXT UNIQUE, status TEXT, event_type TEXT)",
    [],
  );
  for (const row of APPROVALS.get(when)!)
    database.query("INSERT OR REPLACE INTO cf_agents_approvals VALUES (?, ?, ?, ?)", row);
  database.query("CREATE TABLE IF NOT EXISTS cf_agents_workflows (id TEXT PRIMARY KEY)", []);
  database.query("INSERT INTO cf_agents_workflows VALUES (?)", [when]);
  database.query(
    "CREATE TABLE IF NOT EXISTS cf_agents_mcp_events (id INTEGER PRIMARY KEY AUTOINCREMENT)",
    [],
  );
  for (const _ of [1, 2]) database.query("INSERT INTO cf_agents_mcp_events DEFAULT VALUES", []);
  database.query("DELETE FROM cf_agents_mcp_events WHERE id > 1", []);
  const row = { uid: when, callback: "work", payload: null, retryOptions: "{}", createdAt: 1 };
  for (const table of ["svc_agents_queue", "svc_agents_outgoing", "svc_agents_mail"])
    new QueueTable(database, table).push({ ...row, id: when });
}

function restored() {
  const { databases } = opened;
  const past = databases.open(ID).database;
  fill(past, "then");
  const then = new AgentImage(ID);
  [then.seq, then.state, then.timeMs] = [3 as Sequence, '{"n":1}', 100];
  const to = decodeSnapshot(then.encode(commit(past)));
  past.query("DELETE FROM svc_agents_queue", []);
  past.query("DELETE FROM svc_agents_outgoing", []);
  fill(past, "now");
  const image = new AgentImage(ID);
  [image.seq, image.state, image.timeMs] = [9 as Sequence, '{"n":7}', 900];
  image.done.add("github:1", 900, 8);
  image.begun.set("github:2", { attempts: 1, inboxSeq: 4 });
  image.begun.set("queue:now", { attempts: 2, inboxSeq: 0 });
  image.begun.set("call:order 1", { attempts: 1, inboxSeq: 0 });
  image.steps = new Map([["call:order 1", new Map([["1:charge", '"paid"']])]]);
  const before = commit(past);
  const time = { id: () => "event", nowMs: () => 1_000 };
  const { data } = restoreEvent({
    image, database: past, databases, to, key: "restore:1", host: "h", epoch: 2 as Epoch, time,
  }); // prettier-ignore
  past.close();
  const after = databases.open(ID).database;
  after.restore(before);
  const event = decodeEvent(data);
  replayEvent(image, after, 10 as Sequence, event);
  const ids = (table: string) =>
    after.query(`SELECT id FROM ${table} ORDER BY id`, []).rows.map(([id]) => id);
  return { image, after, ids, head: event.head };
}

it("a restore restores state, rows and queue", () => {
  const { image, after, ids, head } = restored();
  expect(image.state).toBe('{"n":1}');
  expect(after.query("SELECT text FROM notes", []).rows).toEqual([["then"]]);
  expect(ids("svc_agents_queue")).toEqual(["then"]);
  expect(head.queue).toMatchObject({ put: [{ id: "then" }], del: ["now"] });
  expect(head.turns[0]!.restored).toEqual({ seq: 3, time: 100 });
});

it("a restore keeps what was sent, and what waits to be sent", () => {
  const { ids } = restored();
  expect(ids("svc_agents_outgoing")).toEqual(["now"]);
  expect(ids("svc_agents_mail")).toEqual(["now", "then"]);
});

it("a restore keeps what is spent of budgets", () => {
  const { after } = restored();
  const used = after.query("SELECT used FROM cf_agents_budget_uses", []).rows;
  expect(used).toEqual([[90]]);
  expect(() => spend(after, 11)).toThrow(BudgetExceeded);
});

it("a restore keeps people's decisions, and withdraws questions that nobody waits for", () => {
  const { after } = restored();
  const { rows } = after.query(
    "SELECT id, key, status FROM cf_agents_approvals ORDER BY rowid",
    [],
  );
  expect(rows).toEqual([
    ["refund", '"then" refund', "approved"],
    ["moved", '"then" moved', "waiting"],
    ["ended", '"then" ended', "waiting"],
    ["later", '"now" later', "withdrawn"],
    ["decided", '"now" decided', "rejected"],
    ["step", "step", "waiting"],
  ]);
});

it("a restore keeps the indexes of kept tables", () => {
  const { after } = restored();
  const sql = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL ORDER BY name";
  expect(after.query(sql, []).rows.flat()).toContain("svc_agents_mail_uid");
});

it("a restore does not stop started workflows", () => {
  const { ids } = restored();
  expect(ids("cf_agents_workflows")).toEqual(["now", "then"]);
});

it("a restore reuses no event number that an MCP session's client has", () => {
  const { after } = restored();
  after.query("INSERT INTO cf_agents_mcp_events DEFAULT VALUES", []);
  const { rows } = after.query("SELECT id FROM cf_agents_mcp_events ORDER BY id", []);
  expect(rows).toEqual([[1], [5]]);
});

it("a restore keeps processed and begun inputs, and restarts jobs", () => {
  const { image } = restored();
  expect(image.done.seqOf("github:1")).toBe(8);
  expect(image.done.seqOf("restore:1")).toBe(10);
  expect([...image.begun.keys()]).toEqual(["github:2", "call:order 1"]);
});

it("a restore keeps the done steps of durable calls, which go on", () => {
  const { image } = restored();
  expect(image.stepsDone("call:order 1")).toEqual(["1:charge"]);
});

it.each(["", "ON DELETE CASCADE"])(
  "a restore keeps users' rows that refer to a row of the library's, and triggers on its tables (%s)",
  (deletion) => {
    const { databases } = opened;
    const now = databases.open(ID).database;
    const query = (sql: string) => now.query(sql, []);
    query("CREATE TABLE cf_agents_workflows (id TEXT PRIMARY KEY)");
    query(`CREATE TABLE orders (id TEXT REFERENCES cf_agents_workflows (id) ${deletion})`);
    query("CREATE TABLE log (id TEXT)");
    query(
      "CREATE TRIGGER began AFTER INSERT ON cf_agents_workflows BEGIN INSERT INTO log VALUES (new.id); END",
    );
    query("INSERT INTO cf_agents_workflows VALUES ('w')");
    query("INSERT INTO orders VALUES ('w')");
    const image = new AgentImage(ID);
    image.seq = 3 as Sequence;
    const to = decodeSnapshot(image.encode(commit(now)));
    query("DELETE FROM orders");
    commit(now);
    const past = databases.open(ID).database;
    past.restore(to.image);
    keepSent(now, past);
    const column = (sql: string) => past.query(sql, []).rows.flat();
    expect(column("SELECT id FROM orders")).toEqual(["w"]);
    expect(column("SELECT id FROM log")).toEqual(["w"]);
    past.query("INSERT INTO cf_agents_workflows VALUES ('next')", []);
    expect(column("SELECT id FROM log ORDER BY id")).toEqual(["next", "w"]);
  },
);

function arm(database: AgentDatabase, callback: string): void {
  const table = new ScheduleTable(database);
  table.make();
  const sql =
    "INSERT INTO svc_agents_schedules (callback, type, due_ms) VALUES (?, 'scheduled', 9)";
  database.query(sql, [callback]);
}

it("a restore runs no triggers that users have made on what it keeps", () => {
  const { databases } = opened;
  const past = databases.open(ID).database;
  fill(past, "then");
  const now = databases.open(ID).database;
  now.restore(commit(past));
  fill(now, "now");
  arm(now, EXPIRY_ALARM);
  arm(past, "work");
  past.query("CREATE TABLE log (what TEXT)", []);
  const tables = ["cf_agents_approvals", "cf_agents_workflows", "svc_agents_schedules"];
  for (const table of tables)
    for (const event of ["INSERT", "UPDATE", "DELETE"])
      past.query(
        `CREATE TRIGGER "${table} ""${event}""" AFTER ${event} ON ${table} BEGIN INSERT INTO log VALUES ('${table} ${event}'); END`,
        [],
      );
  keepSent(now, past);
  expect(past.query("SELECT what FROM log", []).rows).toEqual([]);
  expect(new ScheduleTable(past).all()).toHaveLength(2);
  for (const table of tables) past.query(`DELETE FROM ${table}`, []);
  const { rows } = past.query("SELECT DISTINCT what FROM log ORDER BY 1", []);
  expect(rows.flat()).toEqual(tables.map((table) => `${table} DELETE`));
});
