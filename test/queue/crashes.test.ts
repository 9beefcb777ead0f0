/** A host that dies at every message to the broker: inputs are done once, as a whole, or not. */
import { describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import { JobRig } from "./JobRig.ts";

let rig: JobRig;
/** Callbacks that began, in order, on any host: more often than they count, where hosts died. */
let began: string[];

class Worker extends Agent<unknown, { readonly counts: Record<string, number> }> {
  override initialState = { counts: {} as Record<string, number> };
  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS done (name TEXT)`;
  }
  async work(name: string): Promise<void> {
    began.push(name);
    this.#count(name);
    await new Promise<void>((resolve) => rig.time.after(3, resolve));
    this.sql`INSERT INTO done VALUES (${name})`;
  }
  // Without an await in between: one commit.
  async pushAll(): Promise<string> {
    const pushed = ["q1", "q2", "q3"].map((name) => this.queue("work", name));
    this.#count("asked");
    await Promise.all(pushed);
    return "told";
  }
  async planAll(): Promise<string> {
    const planned = [
      this.schedule("work", { delayInSeconds: 1, payload: "s1" }),
      this.schedule("work", { delayInSeconds: 2, payload: "s2" }),
      this.schedule("work", { cron: "*/5 * * * * *", payload: "cron" }),
    ];
    this.#count("asked");
    await Promise.all(planned);
    return "told";
  }
  async cancelAll(): Promise<string> {
    const cancelled = this.getSchedules().map(({ id }) => this.cancelSchedule(id));
    this.#count("cancelled");
    await Promise.all(cancelled);
    return "told";
  }
  look(): unknown {
    const rows = this.sql<{
      name: string;
      n: number;
    }>`SELECT name, count(*) AS n FROM done GROUP BY name`;
    return {
      counts: this.state.counts,
      rows: Object.fromEntries(rows.map(({ name, n }) => [name, n])),
      left: this.getSchedules().length,
    };
  }
  #count(name: string): void {
    const { counts } = this.state;
    this.setState({ counts: { ...counts, [name]: (counts[name] ?? 0) + 1 } });
  }
}

interface Seen {
  readonly counts: Record<string, number>;
  readonly rows: Record<string, number>;
  readonly left: number;
}

/** Kills the host at its nth word to the broker; before it counts, or right after. */
function killAt(
  n: number,
  when: "before" | "after",
): { readonly words: () => number; point: string } {
  let words = 0;
  const told = { words: () => words, point: "" };
  rig.broker.intercept = ({ kind, connection, key }) => {
    if (!connection.startsWith("host-") || ++words !== n) return;
    told.point = `${kind} ${key}`;
    if (when === "before") rig.kill();
    // What the broker does with it happens in this turn of the loop.
    else setImmediate(() => rig.kill());
  };
  return told;
}

async function run(
  method: "pushAll" | "planAll",
  n: number,
  when: "before" | "after",
): Promise<{ told: boolean; seen: Seen; words: number; point: string }> {
  began = [];
  rig = await JobRig.make({ Worker }, { startMs: Date.UTC(2025, 0, 1, 12, 0, 0, 500) });
  await rig.call("a", "look");
  const kill = killAt(n, when);
  let told = false;
  const asked = rig.call("a", method).then(
    () => (told = true),
    () => undefined,
  );
  // The schedules' whole life passes, on one host or two.
  for (let ms = 0; ms < 6_000; ms += 100) {
    await rig.pass(100);
    if (kill.point !== "" && rig.activeAgents === 0) {
      await revive();
    }
  }
  const words = kill.words();
  await revive();
  await rig.pass(30_000);
  await asked;
  const seen = await rig.call<Seen>("a", "look");
  return { told, seen, words, point: kill.point };
}

let revived: JobRig | undefined;
/** A second host, once. */
async function revive(): Promise<void> {
  rig.broker.intercept = undefined;
  if (revived === rig) return;
  revived = rig;
  rig.kill();
  await rig.startHost();
}

/** Far more than any of the stories below needs; the last one found is checked to be near. */
const WORDS_MAX = 200;

describe.each(["before", "after"] as const)("killed just %s", (when) => {
  test("any sequence of queue operations runs every item once and in order, or not at all", async () => {
    let n = 1;
    for (; n < WORDS_MAX; n++) {
      const { told, seen, words, point } = await run("pushAll", n, when);
      const asked = seen.counts["asked"] ?? 0;
      const at = `word ${n}, ${point}`;
      if (told) expect(asked, at).toBe(1);
      expect(asked, at).toBeLessThanOrEqual(1);
      const wanted = asked === 1 ? { q1: 1, q2: 1, q3: 1 } : {};
      expect(seen.rows, at).toEqual(wanted);
      expect(seen.counts, at).toEqual(asked === 1 ? { asked: 1, ...wanted } : {});
      const firsts = [...new Set(began)];
      expect(firsts, at).toEqual(Object.keys(wanted));
      if (asked === 0) expect(began, at).toEqual([]);
      if (words < n) break;
    }
    expect(n).toBeGreaterThan(8);
    expect(n).toBeLessThan(WORDS_MAX);
  });

  test("any sequence of schedule operations runs every one once, none early, a cron once per instant", async () => {
    let n = 1;
    for (; n < WORDS_MAX; n++) {
      const { told, seen, words, point } = await run("planAll", n, when);
      const asked = seen.counts["asked"] ?? 0;
      const at = `word ${n}, ${point}`;
      if (told) expect(asked, at).toBe(1);
      const { cron = 0, ...once } = seen.rows;
      expect(once, at).toEqual(asked === 1 ? { s1: 1, s2: 1 } : {});
      expect(seen.left, at).toBe(asked);
      if (asked === 1) {
        const instants = Math.floor((rig.time.nowMs() - Date.UTC(2025, 0, 1, 12)) / 5_000);
        // One instant may have passed while no host was there for a moment.
        expect(cron, at).toBeGreaterThanOrEqual(instants - 1);
        expect(cron, at).toBeLessThanOrEqual(instants);
      }
      expect(seen.counts["cron"] ?? 0, at).toBe(cron);
      if (words < n) break;
    }
    expect(n).toBeGreaterThan(10);
    expect(n).toBeLessThan(WORDS_MAX);
  });
});

describe("a cancellation that was acknowledged", () => {
  test("is never followed by a run of its callback, wherever the host dies", async () => {
    for (let n = 1; n < 30; n++) {
      began = [];
      rig = await JobRig.make({ Worker }, { startMs: Date.UTC(2025, 0, 1, 12, 0, 0, 500) });
      await rig.call("a", "planAll");
      const kill = killAt(n, "after");
      let told = false;
      let before = -1;
      const asked = rig.call("a", "cancelAll").then(
        () => {
          told = true;
          before = began.length;
        },
        () => undefined,
      );
      for (let ms = 0; ms < 3_000; ms += 100) {
        await rig.pass(100);
        if (kill.point !== "") await revive();
      }
      await revive();
      await rig.pass(30_000);
      await asked;
      const seen = await rig.call<Seen>("a", "look");
      if (told) expect(began.slice(before), `word ${n}, ${kill.point}`).toEqual([]);
      if (seen.counts["cancelled"] === 1) expect(seen.left).toBe(0);
      else expect(seen.rows).toMatchObject({ s1: 1, s2: 1 });
    }
  });
});
