/** `running` of a schedule's row is written when somebody could see it: most runs end before. */
import { beforeEach, describe, expect, test, vi } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import { LocalImageCorrupt } from "../../core/database/Databases.ts";
import type { Schedule } from "../../core/schedule/Schedule.ts";
import { ScheduleTable } from "../../core/schedule/ScheduleTable.ts";
import { agentId } from "../../schemas/Address.ts";
import { JobRig } from "../queue/JobRig.ts";

const RUNNING = "SELECT running FROM svc_agents_schedules";

let rig: JobRig;
let onStart: (agent: Worker) => unknown;

class Worker extends Agent {
  override async onStart(): Promise<void> {
    await onStart(this);
  }
  tick(): unknown {
    return undefined;
  }
  plan(seconds: number): Promise<Schedule> {
    return this.schedule(seconds, "tick");
  }
  planEvery(intervalSeconds: number): Promise<Schedule> {
    return this.scheduleEvery(intervalSeconds, "tick");
  }
  run(sql: string): unknown[] {
    return this.ctx.storage.sql.exec(sql).toArray();
  }
  undo(sql: string): void {
    try {
      this.ctx.storage.transactionSync(() => {
        this.run(sql);
        throw new Error("undone");
      });
    } catch {
      // As it is meant.
    }
  }
}

beforeEach(async () => {
  onStart = () => undefined;
  rig = await JobRig.make({ Worker });
});

const sql = (statement: string) => rig.call<unknown[]>("a", "run", statement);
const elsewhere = async () => {
  rig.kill();
  await rig.startHost();
};

describe("`running` of a run that is not visible yet", () => {
  test.each<[string, (agent: Worker) => unknown]>([
    ["SQL", (agent) => agent.run(RUNNING)],
    ["SQL that does not name the table", (agent) => agent.run("SELECT running FROM seen")],
    [
      "SQL after a transaction that was undone",
      (agent) => (agent.undo(RUNNING), agent.run(RUNNING)),
    ],
    [
      "SQL after another schedule was made",
      async (agent) => (await agent.plan(900), agent.run(`${RUNNING} WHERE type = 'interval'`)),
    ],
  ])("is 1 in its callback, by %s", async (_by, look) => {
    const seen: unknown[] = [];
    onStart = (agent) => {
      agent.tick = async () => void seen.push(await look(agent));
    };
    await rig.call("a", "planEvery", 10);
    await sql("CREATE VIEW seen AS SELECT running FROM svc_agents_schedules");
    await rig.pass(10_500);
    expect(seen).toEqual([[{ running: 1 }]]);
    expect(await sql(`${RUNNING} WHERE type = 'interval'`)).toEqual([{ running: 0 }]);
  });

  test("is stored with what the run stores before its end, undone with it when its host ends, and not stored for a run that ends at once", async () => {
    const seen: unknown[] = [];
    onStart = (agent) => {
      if (agent.getSchedules().length > 0) seen.push(agent.run(RUNNING));
      agent.tick = async () => {
        agent.setState({ begun: true });
        await new Promise<void>((resolve) => rig.time.after(1_000, resolve));
      };
    };
    await rig.call("a", "planEvery", 10);
    await rig.pass(10_500);
    expect(await sql(RUNNING)).toEqual([{ running: 1 }]);
    await elsewhere();
    await rig.pass(1_000);
    expect(seen).toEqual([[{ running: 0 }]]);
    onStart = (agent) => {
      seen.push(agent.run(RUNNING));
      agent.tick = () => undefined;
    };
    await elsewhere();
    await rig.pass(15_000);
    await elsewhere();
    expect(await sql(RUNNING)).toEqual([{ running: 0 }]);
  });

  test.each(["seen", "stored"])(
    "of a first attempt that was %s is cleared after the second",
    async (how) => {
      let attempts = 0;
      onStart = (agent) => {
        agent.tick = async () => {
          if (++attempts > 1) return;
          if (how === "seen") agent.run(RUNNING);
          else agent.setState({ begun: true });
          await new Promise<void>((resolve) => rig.time.after(1_000, resolve));
          throw new Error("once more");
        };
      };
      await rig.call("a", "planEvery", 10);
      await rig.pass(15_000);
      expect(attempts).toBe(2);
      expect(await sql(RUNNING)).toEqual([{ running: 0 }]);
    },
  );

  test("of a run that ends on a damaged image: the agent is evicted, and no attempt has failed", async () => {
    const damage = new LocalImageCorrupt({
      id: agentId("Worker", "a"),
      page: 1,
      message: "page 1",
    });
    const remove = vi.spyOn(ScheduleTable.prototype, "remove").mockImplementationOnce(() => {
      throw damage;
    });
    await rig.call("a", "plan", 10);
    await rig.pass(15_000);
    expect(remove).toHaveBeenCalledTimes(2);
    expect(await sql(RUNNING)).toEqual([]);
    const types = rig.events.map(({ type }) => type);
    expect(types.filter((type) => type === "schedule:execute")).toHaveLength(2);
    expect(types).not.toContain("schedule:retry");
    remove.mockRestore();
  });

  test("does not prevent its own callback from repairing the table", async () => {
    let mended = 0;
    onStart = (agent) => {
      agent.tick = () => {
        agent.run("ALTER TABLE svc_agents_schedules RENAME COLUMN running TO was");
        agent.run("ALTER TABLE svc_agents_schedules RENAME COLUMN was TO running");
        mended++;
      };
    };
    await rig.call("a", "plan", 10);
    await rig.pass(10_500);
    expect(mended).toBe(1);
    expect(await sql(RUNNING)).toEqual([]);
  });
});
