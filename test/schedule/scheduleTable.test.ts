/** `svc_agents_schedules` under users' SQL: a turn's writes take effect with its commit. */
import { beforeEach, describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { Schedule } from "../../core/schedule/Schedule.ts";
import { JobRig } from "../queue/JobRig.ts";

const START_MS = Date.UTC(2025, 0, 1, 12);
const START_S = START_MS / 1000;
const HOUR_MS = 3_600_000;

let rig: JobRig;
/** `callback payload`, and when, in seconds since the start. */
let ran: Array<[string, number]>;

class Worker extends Agent {
  override async onStart(): Promise<void> {
    // As agents do: nothing that a wake should make more of.
    this.sql`CREATE TABLE IF NOT EXISTS notes (text TEXT)`;
    await onStart(this);
  }
  tick(payload: unknown, schedule: Schedule): void {
    ran.push([`tick ${JSON.stringify(payload)}`, this.#at(schedule)]);
  }
  tock(payload: unknown, schedule: Schedule): void {
    ran.push([`tock ${JSON.stringify(payload)}`, this.#at(schedule)]);
  }
  plan(...args: unknown[]): Promise<unknown> {
    return this.schedule(...(args as [never, never]));
  }
  run(...statements: string[]): unknown[] {
    let rows: unknown[] = [];
    for (const sql of statements) rows = this.ctx.storage.sql.exec(sql).toArray();
    return rows;
  }
  undo(...statements: string[]): string {
    try {
      this.ctx.storage.transactionSync(() => {
        this.run(...statements);
        throw new Error("undone");
      });
    } catch (error) {
      return (error as Error).message;
    }
    return "kept";
  }
  keep(...statements: string[]): void {
    this.ctx.storage.transactionSync(() => this.run(...statements));
  }
  async planAndUndo(): Promise<number> {
    try {
      this.ctx.storage.transactionSync(() => {
        void this.schedule(5, "tick");
        void this.ctx.storage.sync().catch(() => undefined);
        throw new Error("undone");
      });
    } catch {
      return this.getSchedules().length;
    }
    return -1;
  }
  async change(id: string, toSeconds: number | null): Promise<void> {
    this.run("INSERT INTO notes VALUES ('its commit is on its way')");
    await Promise.resolve();
    if (toSeconds === null) await this.cancelSchedule(id);
    else this.run(`UPDATE svc_agents_schedules SET time = ${toSeconds} WHERE id = '${id}'`);
  }
  list(): unknown[] {
    return this.getSchedules();
  }
  #at(_schedule: Schedule): number {
    return (rig.time.nowMs() - START_MS) / 1000;
  }
}

let onStart: (agent: Worker) => unknown;

beforeEach(async () => {
  ran = [];
  onStart = () => undefined;
  rig = await JobRig.make({ Worker }, { startMs: START_MS });
});

const plan = (...args: unknown[]) => rig.call<Schedule>("a", "plan", ...args);
const sql = <Row = Record<string, unknown>>(...statements: string[]) =>
  rig.call<Row[]>("a", "run", ...statements);
/** The same again on a host that has nothing in memory: the broker's timers are what is left. */
const elsewhere = async () => {
  rig.kill();
  await rig.startHost();
};

describe.each([
  ["in memory", async () => undefined],
  ["from hibernation", () => rig.hibernate()],
  ["on another host", elsewhere],
])("%s", (_where, move) => {
  test("is cancelled by a DELETE", async () => {
    const { id } = await plan(100, "tick");
    await plan(200, "tock");
    await sql(`DELETE FROM svc_agents_schedules WHERE id = '${id}'`);
    await move();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([["tock undefined", 200]]);
    expect(rig.broker.timers.size).toBe(0);
  });

  test("is rearmed by an UPDATE of time, later and sooner, to exactly that second", async () => {
    const later = await plan(100.5, "tick", "later");
    const sooner = await plan(300.5, "tick", "sooner");
    await sql(
      `UPDATE svc_agents_schedules SET time = ${START_S + 500} WHERE id = '${later.id}'`,
      `UPDATE svc_agents_schedules SET time = ${START_S + 200} WHERE id = '${sooner.id}'`,
    );
    await move();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([['tick "sooner"', 200], ['tick "later"', 500]]); // prettier-ignore
  });

  test("is rearmed by an UPDATE of cron or its time zone", async () => {
    const { id } = await plan("0 18 * * *", "tick");
    await sql(`UPDATE svc_agents_schedules SET cron = '30 12 * * *' WHERE id = '${id}'`);
    const zoned = await plan("0 15 * * *", "tock");
    await sql(`UPDATE svc_agents_schedules SET timezone = 'Asia/Tokyo' WHERE id = '${zoned.id}'`);
    await move();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([["tick undefined", 1800]]);
    ran = [];
    await rig.passTo(Date.UTC(2025, 0, 2, 7));
    expect(ran).toEqual([["tock undefined", 18 * 3600]]);
  });

  test("runs differently, not at another time, after an UPDATE of payload or callback", async () => {
    const { id } = await plan(100.25, "tick", { old: true });
    await sql(
      `UPDATE svc_agents_schedules SET payload = '{"new":1}', callback = 'tock' WHERE id = '${id}'`,
    );
    await move();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([['tock {"new":1}', 100.25]]);
  });

  test("counts a new interval from the UPDATE", async () => {
    await plan("tick", { intervalSeconds: 1000 });
    await rig.passTo(START_MS + 50_000);
    await sql("UPDATE svc_agents_schedules SET intervalSeconds = 100");
    await move();
    await rig.passTo(START_MS + 260_000);
    expect(ran.map(([, at]) => Math.round(at))).toEqual([150, 250]);
  });

  test("is armed by an INSERT: each kind by its own column, or by time", async () => {
    await sql(
      `INSERT INTO svc_agents_schedules (callback, type, delayInSeconds, payload) VALUES ('tick', 'delayed', 90, '"delay"')`,
      `INSERT INTO svc_agents_schedules (callback, type, time, payload) VALUES ('tick', 'scheduled', ${START_S + 80}, '"time"')`,
      `INSERT INTO svc_agents_schedules (callback, type, cron, payload) VALUES ('tick', 'cron', '2 12 * * *', '"cron"')`,
      `INSERT INTO svc_agents_schedules (callback, type, intervalSeconds, payload) VALUES ('tick', 'interval', 150, '"interval"')`,
      `INSERT INTO svc_agents_schedules (id, callback, type, cron, time, payload) VALUES ('mine', 'tick', 'cron', '0 0 1 1 *', ${START_S + 70}, '"first by time"')`,
    );
    expect(await sql("SELECT id FROM svc_agents_schedules WHERE length(id) = 18")).toHaveLength(4);
    await move();
    await rig.passTo(START_MS + 200_000);
    expect(ran).toEqual([
      ['tick "first by time"', 70], ['tick "time"', 80], ['tick "delay"', 90], ['tick "cron"', 120],
      ['tick "interval"', 150],
    ]); // prettier-ignore
    expect(await sql("SELECT id FROM svc_agents_schedules WHERE id = 'mine'")).toHaveLength(1);
  });

  test("is dropped with all others by DROP TABLE, and new ones work again", async () => {
    await plan(100, "tick");
    await plan("*/5 * * * *", "tick");
    await sql("DROP TABLE svc_agents_schedules");
    await plan(200, "tock");
    await move();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([["tock undefined", 200]]);
  });
});

describe("SQL that does not name the table", () => {
  test("changes schedules by a trigger, in the same commit", async () => {
    const { id } = await plan(100, "tick");
    await sql(
      "CREATE TABLE jobs (id TEXT, at INTEGER)",
      "CREATE TRIGGER moved AFTER UPDATE ON jobs BEGIN UPDATE svc_agents_schedules SET time = new.at WHERE id = new.id; END",
      "CREATE TRIGGER gone AFTER DELETE ON jobs BEGIN DELETE FROM Svc_Agents_Schedules WHERE id = old.id; END",
      `INSERT INTO jobs VALUES ('${id}', 0)`,
    );
    await sql(`UPDATE jobs SET at = ${START_S + 200}`);
    await elsewhere();
    await rig.pass(150_000);
    expect(ran).toEqual([]);
    await rig.pass(100_000);
    expect(ran).toEqual([["tick undefined", 200]]);
    const other = await plan(1000, "tick");
    await sql(`INSERT INTO jobs VALUES ('${other.id}', 0)`, "DELETE FROM jobs");
    expect(rig.broker.timers.size).toBe(0);
  });

  test("changes schedules by a trigger that it creates itself", async () => {
    const { id } = await plan(100, "tick");
    await sql("CREATE TABLE jobs (id TEXT)", `INSERT INTO jobs VALUES ('${id}')`);
    await sql(
      "CREATE TRIGGER gone AFTER DELETE ON jobs BEGIN DELETE FROM svc_agents_schedules; END; DELETE FROM jobs",
    );
    await elsewhere();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([]);
  });
});

describe("the runtime's own writes", () => {
  test("are seen as a trigger on the table leaves them", async () => {
    await plan(10, "tock");
    await sql(
      `CREATE TRIGGER later AFTER INSERT ON svc_agents_schedules BEGIN
         UPDATE svc_agents_schedules SET time = ${START_S + 300} WHERE id = new.id; END`,
      `CREATE TRIGGER renamed AFTER UPDATE OF running ON svc_agents_schedules WHEN new.running BEGIN
         UPDATE svc_agents_schedules SET payload = '"changed"' WHERE id = new.id; END`,
    );
    await plan(100, "tick", "plain");
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([['tock "changed"', 10], ['tick "changed"', 300]]); // prettier-ignore
    expect(await sql("SELECT * FROM svc_agents_schedules")).toEqual([]);
    expect(rig.broker.timers.size).toBe(0);
  });

  test("are checked again after the user's statements, even if the last one failed", async () => {
    await plan(100, "tick");
    const half = `UPDATE svc_agents_schedules SET time = ${START_S + 300}; SELECT nope`;
    await expect(sql(half)).rejects.toThrow("nope");
    await rig.settled();
    await elsewhere();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([["tick undefined", 300]]);
  });
});

describe("a transaction that is rolled back", () => {
  test("arms nothing, cancels nothing and moves nothing", async () => {
    const { id } = await plan(100, "tick", "kept");
    const told = await rig.call(
      "a", "undo",
      `DELETE FROM svc_agents_schedules WHERE id = '${id}'`,
      `INSERT INTO svc_agents_schedules (callback, type, delayInSeconds) VALUES ('tock', 'delayed', 10)`,
    ); // prettier-ignore
    expect(told).toBe("undone");
    await rig.call("a", "undo", `UPDATE svc_agents_schedules SET time = ${START_S + 10}`);
    await elsewhere();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([['tick "kept"', 100]]);
  });

  test("arms nothing even if a commit happens in the middle of it", async () => {
    await plan(100, "tock");
    expect(await rig.call("a", "planAndUndo")).toBe(1);
    await rig.settled();
    expect(rig.broker.timers.size).toBe(1);
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([["tock undefined", 100]]);
  });

  test("that created the table leaves an agent that can schedule", async () => {
    await rig.call("a", "undo", "DELETE FROM svc_agents_schedules");
    await plan(10, "tick");
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([["tick undefined", 10]]);
  });

  test("takes effect as a whole if it is kept", async () => {
    await plan(100, "tick");
    await rig.call(
      "a", "keep", "DELETE FROM svc_agents_schedules",
      `INSERT INTO svc_agents_schedules (callback, type, delayInSeconds) VALUES ('tock', 'delayed', 10)`,
    ); // prettier-ignore
    await elsewhere();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([["tock undefined", 10]]);
  });
});

describe("schedules in SQL", () => {
  test("can be selected before there is any schedule, in any case of letters", async () => {
    expect(await sql("SELECT * FROM SVC_Agents_Schedules")).toEqual([]);
  });

  test("have the interface's columns and defaults", async () => {
    const columns = await sql<{ name: string; type: string; notnull: number; pk: number }>(
      "PRAGMA table_info(svc_agents_schedules)",
    );
    const named = new Map(columns.map((column) => [column.name, column]));
    for (const [name, type] of [
      ["id", "TEXT"],
      ["callback", "TEXT"],
      ["payload", "TEXT"],
      ["type", "TEXT"],
      ["time", "INTEGER"],
      ["delayInSeconds", "INTEGER"],
      ["cron", "TEXT"],
      ["intervalSeconds", "INTEGER"],
      ["running", "INTEGER"],
      ["retry_options", "TEXT"],
      ["created_at", "INTEGER"],
    ] as const)
      // prettier-ignore
      expect(named.get(name)?.type, name).toBe(type);
    expect([named.get("id")?.pk, named.get("id")?.notnull, named.get("type")?.notnull]).toEqual([
      1, 1, 1,
    ]);
    const [row] = await sql(
      "INSERT INTO svc_agents_schedules (type, callback, time) VALUES ('scheduled', 'tick', 9e9) RETURNING *",
    );
    expect(row).toMatchObject({ id: expect.stringMatching(/^[0-9a-f]{18}$/), running: 0 });
    expect(Math.abs(Number(row!["created_at"]) - Date.now() / 1000)).toBeLessThan(100);
    await expect(
      sql("INSERT INTO svc_agents_schedules (type, callback) VALUES ('weekly', 'tick')"),
    ).rejects.toThrow(/CHECK constraint failed/);
  });

  test("have `running` 1 while the callback runs", async () => {
    let seen: unknown;
    onStart = (agent) => {
      agent.tick = async () => {
        await new Promise<void>((resolve) => rig.time.after(1_000, resolve));
        seen = agent.run("SELECT running FROM svc_agents_schedules");
      };
    };
    await plan("tick", { intervalSeconds: 10 });
    await rig.pass(10_500);
    expect(await sql("SELECT running FROM svc_agents_schedules")).toEqual([{ running: 1 }]);
    await rig.pass(1_000);
    expect(seen).toEqual([{ running: 1 }]);
    expect(await sql("SELECT running FROM svc_agents_schedules")).toEqual([{ running: 0 }]);
  });
});

describe("invalid rows affect only their own schedule", () => {
  const insert = (columns: string, values: string) =>
    sql(`INSERT INTO svc_agents_schedules (${columns}) VALUES (${values})`);

  test.each([
    ["an interval of 0", () => insert("callback, type, intervalSeconds", "'tick', 'interval', 0")],
    ["a cron expression that is none", () => insert("callback, type, cron", "'tick', 'cron', 'whenever'")],
    ["a cron expression that never comes", () => insert("callback, type, cron", "'tick', 'cron', '0 0 30 2 *'")],
    ["a schedule without a time", () => insert("callback, type", "'tick', 'scheduled'")],
    ["a time in milliseconds", () => insert("callback, type, time", `'tick', 'scheduled', ${START_MS}`)],
    ["a time that is text", () => insert("callback, type, time", "'tick', 'scheduled', 'tomorrow'")],
    ["an infinite time", () => insert("callback, type, time", "'tick', 'scheduled', 9e999")],
    ["a delay past all years", () => insert("callback, type, delayInSeconds", "'tick', 'delayed', 1e15")],
  ])("%s is not armed, and its row stays", async (_name, act) => {
    await act();
    await plan(100, "tock");
    await rig.hibernate();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([["tock undefined", 100]]);
    expect(await sql("SELECT callback FROM svc_agents_schedules")).toEqual([{ callback: "tick" }]);
    expect(rig.log.lines.filter(({ message }) => message.includes("aborted"))).toEqual([]);
  }); // prettier-ignore

  test.each(["-9e999", "-1e307", "-1e12"])("a time of %s is due at once, once", async (time) => {
    await insert("callback, type, time", `'tick', 'scheduled', ${time}`);
    await elsewhere();
    await rig.pass(HOUR_MS);
    expect(ran.map(([what]) => what)).toEqual(["tick undefined"]);
    expect([await sql("SELECT * FROM svc_agents_schedules"), rig.broker.deadLetters.all()]).toEqual([[], []]); // prettier-ignore
  });

  test("a row that was not armed is armed once repaired", async () => {
    await insert("callback, type, intervalSeconds", "'tick', 'interval', 0");
    await sql("CREATE TABLE x (y)");
    await sql("UPDATE svc_agents_schedules SET intervalSeconds = 60");
    await elsewhere();
    await rig.pass(60_000);
    expect(ran).toEqual([["tick undefined", 60]]);
  });

  test("a row that is made invalid is disarmed", async () => {
    await plan("tick", { intervalSeconds: 60 });
    await sql("UPDATE svc_agents_schedules SET intervalSeconds = -1");
    await sql("CREATE TABLE x (y)");
    await elsewhere();
    await rig.pass(HOUR_MS);
    expect(ran).toEqual([]);
  });

  test("a payload that is not JSON is passed as text", async () => {
    await insert("callback, type, delayInSeconds, payload", "'tick', 'delayed', 10, 'no {json'");
    expect(await rig.call("a", "list")).toMatchObject([{ payload: "no {json" }]);
    await rig.pass(10_000);
    expect(ran).toEqual([['tick "no {json"', 10]]);
  });

  test("invalid retry options are ignored", async () => {
    await insert(
      "callback, type, delayInSeconds, retry_options",
      "'tick', 'delayed', 10, '{broken'",
    );
    await rig.pass(10_000);
    expect(ran).toEqual([["tick undefined", 10]]);
  });

  test("ids of any length and alphabet work", async () => {
    const ids = ["", "a.b *>", "ü".repeat(3_000), `${"ü".repeat(3_000)}!`];
    for (const id of ids)
      await insert(
        "id, callback, type, delayInSeconds, payload",
        `'${id}', 'tick', 'delayed', 10, '${id.length}'`,
      );
    await elsewhere();
    await rig.pass(20_000);
    expect(ran.map(([what]) => what).toSorted()).toEqual([
      "tick 0",
      "tick 3000",
      "tick 3001",
      "tick 6",
    ]);
    expect(rig.broker.timers.size).toBe(0);
  });

  test("an unknown callback becomes a dead letter after its attempts", async () => {
    await insert("callback, type, delayInSeconds, payload", "'nope', 'delayed', 10, '7'");
    await rig.pass(20_000);
    expect(rig.dead).toMatchObject([
      { callback: "nope", payload: 7, reason: "Error: this.nope is not a function" },
    ]);
    expect(await sql("SELECT * FROM svc_agents_schedules")).toEqual([]);
  });

  test.each([
    ["asleep", () => rig.hibernate()],
    ["in memory", () => undefined],
  ])(
    "a table with missing columns stops its schedules until it is repaired, not the agent: %s",
    async (_where, move) => {
      await plan(20, "tick");
      await sql("ALTER TABLE svc_agents_schedules RENAME COLUMN callback TO was");
      await move();
      await rig.pass(25_000);
      expect(ran).toEqual([]);
      await rig.pass(HOUR_MS);
      expect(ran).toEqual([]);
      await sql("ALTER TABLE svc_agents_schedules RENAME COLUMN was TO callback");
      await rig.pass(60_000);
      expect(ran).toHaveLength(1);
    },
  );
});

describe("arming follows commits", () => {
  test("nothing is armed twice: a wake without a schedule change writes nothing", async () => {
    await plan("tick", { intervalSeconds: 1000 });
    const before = rig.journal("a").length;
    await rig.hibernate();
    onStart = (agent) => void agent.run("INSERT INTO notes VALUES ('awake')");
    let armed = 0;
    rig.broker.intercept = ({ kind }) => void (kind === "arm" && armed++);
    await sql("SELECT 1");
    const events = rig.journal("a").slice(before);
    expect(events.filter(({ schedules }) => schedules !== undefined)).toEqual([]);
    expect(armed).toBe(0);
  });

  test("a schedule made in onStart survives a hibernation that follows at once", async () => {
    onStart = async (agent) => {
      agent.run("INSERT INTO notes VALUES ('first')");
      await new Promise<void>((resolve) => queueMicrotask(resolve));
      await agent.schedule(500, "tick", undefined, { idempotent: true });
    };
    await sql("SELECT 1");
    await elsewhere();
    await rig.passTo(START_MS + 600_000);
    expect(ran).toEqual([["tick undefined", 500]]);
  });

  test("the journal records what was armed and cancelled", async () => {
    const { id } = await plan(100, "tick", { a: 1 });
    await sql(`DELETE FROM svc_agents_schedules WHERE id = '${id}'`);
    const told = rig.journal("a").flatMap(({ schedules }) => (schedules ? [schedules] : []));
    expect(told).toMatchObject([
      { put: [{ id, callback: "tick", payload: { a: 1 } }] },
      { del: [id] },
    ]);
  });

  test("a change undone by a crash leaves the schedule armed as it was", async () => {
    await plan(100, "tick");
    // The re-armed timer is stored, the event is not.
    rig.broker.intercept = ({ kind }) => {
      if (kind === "append") throw new Error("the host is gone");
    };
    const lost = rig.call("a", "run", `UPDATE svc_agents_schedules SET time = ${START_S + 5_000}`);
    lost.catch(() => undefined);
    await rig.pass(10);
    expect(rig.broker.timers.size).toBe(2);
    rig.kill();
    rig.broker.intercept = undefined;
    await rig.startHost();
    await rig.passTo(START_MS + 101_000);
    expect(ran).toEqual([["tick undefined", 100]]);
    await rig.passTo(START_MS + HOUR_MS * 2);
    expect(ran).toHaveLength(1);
  });

  test.each(["cancelled", "moved"])(
    "a schedule that a turn has %s does not run, even before the commit",
    async (what) => {
      const { id } = await plan(1, "tick");
      await rig.passTo(START_MS + 990);
      rig.broker.intercept = ({ kind }) =>
        kind === "append" ? new Promise<void>((resolve) => rig.time.after(50, resolve)) : undefined;
      const isDone = rig.call("a", "change", id, what === "moved" ? START_S + 5 : null);
      await rig.passTo(START_MS + 10_000);
      await isDone;
      expect(ran).toEqual(what === "moved" ? [["tick undefined", 5]] : []);
    },
  );

  test("a trigger whose row was cancelled is not acked before the cancellation is stored", async () => {
    await plan(100, "tick");
    await rig.passTo(START_MS + 99_990);
    rig.broker.intercept = ({ kind }) =>
      kind === "append" ? new Promise<void>(() => undefined) : undefined;
    rig.call("a", "run", "DELETE FROM svc_agents_schedules").catch(() => undefined);
    await rig.passTo(START_MS + 100_400);
    expect(ran).toEqual([]);
    // The host dies: the schedule was never cancelled, and its caller never told so.
    rig.kill();
    rig.broker.intercept = undefined;
    await rig.startHost();
    await rig.pass(1_000);
    expect(ran).toHaveLength(1);
  });

  test("a broker that can't arm now delays the answer and nothing else", async () => {
    await plan(5_000, "tock");
    let refusals = 0;
    rig.broker.intercept = ({ kind }) => {
      if (kind === "arm" && refusals++ < 4) throw new BrokerUnavailable({ message: "away" });
    };
    await plan(100, "tick");
    expect(refusals).toBe(5);
    await elsewhere();
    await rig.passTo(START_MS + 120_000);
    expect(ran).toEqual([["tick undefined", 100]]);
  });
});
