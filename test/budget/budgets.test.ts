/** Budgets: a reserved amount counts once, through crashes and retries, in virtual time. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { Agent, BudgetExceeded, type Spend, type SpendOptions } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import { Budgets } from "../../core/budget/Budgets.ts";
import { Turn } from "../../core/turn/Turn.ts";
import { agentId } from "../../schemas/Address.ts";
import { CronParser } from "../../services/cronParser/CronParser.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";

let act: (agent: Spender, spend: Spend) => void | Promise<void> = () => undefined;
let seen: string[] = [];
let runs = 0;
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const PER_DAY: SpendOptions = { limit: 100, per: "day" };

class Spender extends Agent {
  static override options = { retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 10 } };

  async begin(amount: number): Promise<void> {
    await this.queue("job", amount);
  }
  async job(amount: number): Promise<void> {
    const spend = await this.spend("tokens", amount, PER_DAY);
    seen.push(`${spend.key.replace(/^queue \S+/, "job")} ${spend.status} ${spend.amount}`);
    await act(this, spend);
  }
  /** Reserves in its first run only, which fails, as `fails` of them do. */
  async once({ amount, fails }: { amount: number; fails: number }): Promise<void> {
    if (++runs === 1) await this.job(amount);
    if (runs <= fails) throw new Error("as ordered");
  }
  async beginOnce(amount: number, fails: number): Promise<void> {
    await this.queue("once", { amount, fails });
  }
  async plain(amount: number, options: SpendOptions = PER_DAY, budget = "tokens"): Promise<number> {
    const spend = await this.spend(budget, amount, options);
    return spend.remaining;
  }
  async settled(amount: number, actual: number, options: SpendOptions = PER_DAY) {
    const spend = await this.spend("tokens", amount, options);
    return [spend.settle(actual), spend.settle(1), spend.release(), spend.remaining, spend.status];
  }
  async error(...args: [string, number, SpendOptions]): Promise<unknown> {
    try {
      await this.spend(...args);
      return "none";
    } catch (error) {
      const { name, message } = error as Error;
      return { name, message, is: error instanceof BudgetExceeded };
    }
  }
  used(budget = "tokens"): number | undefined {
    return this.getBudgets().find((each) => each.budget === budget)?.used;
  }
  budgets() {
    return this.getBudgets();
  }
  reservations(): number {
    return this.sql`SELECT * FROM cf_agents_budget_spends`.length;
  }
  async beginLook(): Promise<void> {
    await this.queue("look", {});
  }
  async look(): Promise<void> {
    const [budget] = await this.step("look", () => this.getBudgets());
    seen.push(`${budget?.budget} ${budget?.limit}`);
  }
  async hold(amount: number): Promise<void> {
    await this.spend("tokens", amount, PER_DAY);
    await this.ctx.storage.sync();
    await sleep(60_000);
  }
}

let test: TestAgents;
beforeEach(async () => {
  seen = [];
  runs = 0;
  act = () => undefined;
  test = await testAgents({ agents: [Spender], now: "2025-03-05T10:00:00Z" });
});
afterEach(() => test.close());
const spender = () => test.agent(Spender, "a");

it("a reservation counts until it is settled once with the amount spent", async () => {
  expect(await spender().settled(40, 25)).toEqual([true, false, false, 75, "settled"]);
  expect(await spender().used()).toBe(25);
  expect(await spender().settled(10, 0)).toEqual([true, false, false, 75, "settled"]);
  expect(await spender().plain(50)).toBe(25);
  expect(await spender().used()).toBe(75);
  expect(await spender().reservations()).toBe(0);
});

it("past the limit, a call is refused with the budget's name, and nothing is reserved", async () => {
  await spender().plain(90);
  expect(await spender().error("tokens", 11, PER_DAY)).toEqual({
    name: "BudgetExceeded",
    message:
      'the budget "tokens" has 10 left of 100, but 11 was requested; it resets at 2025-03-06T00:00:00.000Z',
    is: true,
  });
  expect(await spender().plain(10)).toBe(0);
  expect(await spender().used()).toBe(100);
});

it("periods follow the calendar, in UTC or in a time zone", async () => {
  await test.advance("750 minutes"); // to 22:30
  const berlin: SpendOptions = { limit: 10, per: "day", timezone: "Europe/Berlin" };
  await spender().plain(10);
  await spender().plain(10, berlin, "local");
  await spender().plain(10, { limit: 10, per: "ever" }, "life");
  await spender().plain(10, { limit: 10, per: "month" }, "monthly");
  await test.advance("31 minutes"); // past midnight in Berlin
  expect(await spender().plain(5, berlin, "local")).toBe(5);
  expect(await spender().used()).toBe(10);
  await test.advance("1 hour"); // past midnight in UTC
  expect(await spender().used()).toBe(0);
  expect(await spender().plain(90)).toBe(10);
  await test.advance("27 days");
  expect(await spender().plain(1, { limit: 10, per: "month" }, "monthly")).toBe(9);
  expect(await spender().used("life")).toBe(10);
});

it("each period and time zone counts by itself under one name", async () => {
  const perHour: SpendOptions = { limit: 20, per: "hour" };
  const berlin: SpendOptions = { limit: 20, per: "day", timezone: "Europe/Berlin" };
  for (let n = 0; n < 2; n += 1) {
    await spender().plain(10, perHour);
    await spender().plain(10, PER_DAY);
    await spender().plain(10, berlin);
  }
  for (const options of [perHour, berlin])
    expect(await spender().error("tokens", 1, options)).toMatchObject({ name: "BudgetExceeded" });
  expect(await spender().settled(10, 5, PER_DAY)).toEqual([true, false, false, 75, "settled"]);
  await test.advance("1 hour");
  expect(await spender().plain(20, perHour)).toBe(0);
  expect((await spender().budgets()).map(({ per, used }) => [per, used])).toEqual([
    ["day", 25],
    ["day", 20],
    ["hour", 20],
  ]);
});

it("a limit holds as many amounts as it is written to, whatever their sum as floats is", async () => {
  const cents: SpendOptions = { limit: 0.3 };
  for (let n = 0; n < 3; n += 1) await spender().plain(0.1, cents);
  expect(await spender().error("tokens", 0.001, cents)).toMatchObject({ name: "BudgetExceeded" });
});

it("getBudgets can be the first use after a host's death, also in a step", async () => {
  void spender()
    .hold(40)
    .catch(() => undefined);
  await test.advance("1 second");
  await test.crash();
  await test.revive();
  await spender().beginLook();
  await test.advance("1 second");
  expect(seen).toEqual(["tokens 100"]);
});

it("a job that runs again reserves once and settles once, through failures and lost hosts", async () => {
  act = async (agent, spend) => {
    runs++;
    await agent.ctx.storage.sync();
    if (runs === 1) throw new Error("the call failed");
    if (runs === 2) await sleep(5000);
    spend.settle(30);
    await agent.ctx.storage.sync();
    if (runs === 3) await sleep(5000);
  };
  await spender().begin(40);
  await test.advance("1 second");
  expect(await spender().used()).toBe(40);
  await test.crash();
  await test.revive();
  await test.advance("1 second");
  expect(await spender().used()).toBe(30);
  await test.crash();
  await test.revive();
  await test.settled();
  // The settlement of an interrupted run is undone with its other writes, and made again.
  expect(seen).toEqual([
    "job 1 reserved 40", "job 1 reserved 40", "job 1 reserved 40", "job 1 reserved 40",
  ]); // prettier-ignore
  expect(await spender().used()).toBe(30);
  expect(await spender().reservations()).toBe(0);
});

it("a dead job's reservations are released; a finished job's unsettled ones are spent", async () => {
  act = () => {
    throw new Error("always");
  };
  await spender().begin(40);
  await test.settled();
  expect(await test.deadLetters()).toHaveLength(1);
  expect(seen).toHaveLength(3);
  expect(await spender().used()).toBe(0);
  act = () => undefined;
  await spender().begin(40);
  await test.settled();
  expect(await spender().used()).toBe(40);
});

it("reservations of a dead job's earlier run are released, too", async () => {
  await spender().beginOnce(40, 3);
  await test.settled();
  expect(await test.deadLetters()).toHaveLength(1);
  expect([runs, seen.length]).toEqual([3, 1]);
  expect([await spender().used(), await spender().reservations()]).toEqual([0, 0]);
});

it("reservations of a finished job's earlier run are spent, and no longer reserved", async () => {
  await spender().beginOnce(40, 1);
  await test.settled();
  expect(await test.deadLetters()).toEqual([]);
  expect([runs, seen.length]).toEqual([2, 1]);
  expect([await spender().used(), await spender().reservations()]).toEqual([40, 0]);
});

it("reservations of a call's turn are released when its host is lost", async () => {
  const held = spender().hold(40);
  held.catch(() => undefined);
  await test.advance("1 second");
  expect(await spender().used()).toBe(40);
  await test.crash();
  await test.revive();
  await held.catch(() => undefined);
  expect(await spender().used()).toBe(0);
});

it("an explicit key is reserved once in its period, whichever turn asks", async () => {
  const keyed: SpendOptions = { ...PER_DAY, key: "answer-1" };
  expect(await spender().plain(40, keyed)).toBe(60);
  expect(await spender().plain(40, keyed)).toBe(60);
  expect(await spender().settled(40, 20, keyed)).toEqual([true, false, false, 80, "settled"]);
  expect(await spender().settled(40, 20, keyed)).toEqual([false, false, false, 80, "settled"]);
  expect(await spender().error("other", 1, keyed)).toMatchObject({ name: "TypeError" });
  await test.advance("1 day");
  expect(await spender().plain(40, keyed)).toBe(60);
});

it("invalid arguments are errors that name them", async () => {
  const message = async (...args: [string, number, unknown]) =>
    ((await spender().error(...(args as [string, number, SpendOptions]))) as Error).message;
  expect(await message("", 1, PER_DAY)).toMatch(/name of 1 to 64 characters/);
  expect(await message("a", -1, PER_DAY)).toMatch(/the amount of the budget "a" is -1/);
  expect(await message("a", 1, { limit: "x" })).toMatch(
    /the limit of the budget "a" is "x"; it must be a number/,
  );
  expect(await message("a", 1, { limit: 1, per: "year" })).toMatch(
    /per of the budget "a" is "year"/,
  );
  expect(await message("a", 1, { limit: 1, timezone: "Mars" })).toMatch(/Mars/);
  expect(await message("a", 1, 5)).toMatch(/^spend\("a", …\): the options must be an object/);
  expect(await message("a", 1, null)).toMatch(/limit, per, timezone, key, not null/);
  expect(await message("a", 1, { limit: 1, perr: "hour" })).toMatch(/unknown option "perr"/);
  for (let n = 0; n < 100; n++) await spender().plain(1, PER_DAY, `b${n}`);
  expect(await message("one more", 1, PER_DAY)).toMatch(/at most 100 budgets/);
  expect(await spender().budgets()).toHaveLength(100);
});

it("names of budgets are bounded, as they are labels of metrics", () => {
  const labels = new Set<string>();
  const metrics = agentMetrics({
    ...noMetrics,
    counter: (_name, _help, given) => {
      if (given?.["budget"] !== undefined) labels.add(given["budget"]);
      return () => undefined;
    },
  });
  for (let n = 0; n < 300; n++) metrics.budgetSpent("Spender", `budget ${n}`, 1);
  expect(labels.size).toBe(101);
  expect(labels.has("other")).toBe(true);
});

it("a clock that is set back before midnight does not reopen the previous day", async () => {
  const sqlite = await openSqliteDatabases({ folder: undefined });
  const { database } = sqlite.databases.open(agentId("Spender", "a"));
  let now = "2025-03-05T23:59:50Z";
  let ids = 0;
  const budgets = new Budgets(
    {
      id: agentId("Spender", "a"),
      database,
      query: (sql: string, params: never) => database.query(sql, params),
      time: { nowMs: () => Date.parse(now), id: () => `${++ids}` },
      turn: () => new Turn({ cause: { kind: "background" }, owner: {} }),
      emit: () => undefined,
      parts: { jobs: { cron: new CronParser() } },
    } as never,
    false,
  );
  const remaining = (at: string): number => {
    now = at;
    return budgets.spend("tokens", 10, PER_DAY).remaining;
  };
  expect(remaining("2025-03-05T23:59:50Z")).toBe(90);
  expect(remaining("2025-03-06T00:00:05Z")).toBe(90);
  expect(remaining("2025-03-05T23:59:55Z")).toBe(80);
  expect(remaining("2025-03-06T00:00:10Z")).toBe(70);
  // A clock that was far ahead is not believed.
  expect(remaining("2026-03-06T00:00:10Z")).toBe(90);
  expect(remaining("2025-03-06T00:00:20Z")).toBe(90);
  sqlite.close();
});
