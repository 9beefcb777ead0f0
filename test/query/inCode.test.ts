/** `query(env.RepoAgent, sql)` in a module's `fetch` and in agents, in memory. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { query, QueryRefused, type AgentNamespace } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import * as module from "./shopModule.ts";

const { Customer, Shop } = module;
const HOSTILE = `o'hara"; DROP TABLE Shop; --`;
const RICH = "SELECT name, state->>'sold' AS sold FROM Shop WHERE state->>'sold' >= ? ORDER BY 2";

let test: TestAgents;
let shops: AgentNamespace;
beforeEach(async () => {
  test = await testAgents({ module });
  shops = test.env["Shop"] as AgentNamespace;
});
afterEach(() => test.close());

const ask = (path: string): Promise<Response> => test.fetch(path);
const refused = async (sql: string, options = {}): Promise<string> => {
  const error = await query(shops, sql, options).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(QueryRefused);
  return (error as Error).message;
};

describe("query in code", () => {
  it("sees everything stored before it was asked, each time", async () => {
    for (let n = 1; n <= 5; n++) {
      await test.agent(Shop, `shop-${n % 2}`).sell(n);
      const rows = await query(shops, "SELECT sum(state->>'sold') AS sold FROM Shop");
      expect(rows).toEqual([{ sold: (n * (n + 1)) / 2 }]);
    }
  });

  it("binds values, and reads any class through any binding", async () => {
    await test.agent(Shop, HOSTILE).sell(7);
    await test.agent(Customer, "ann").pay(7);
    expect(await query(shops, RICH, { values: [7] })).toEqual([{ name: HOSTILE, sold: 7 }]);
    const named = "SELECT count(*) AS n FROM Shop WHERE name = ?";
    expect(await query(shops, named, { values: [HOSTILE] })).toEqual([{ n: 1 }]);
    const both = "SELECT c.name FROM Shop s JOIN Customer c ON c.state->>'spent' = s.state->>'sold'"; // prettier-ignore
    expect(await query(shops, both)).toEqual([{ name: "ann" }]);
  });

  it("of a class without agents has no rows; an unknown class is an error", async () => {
    expect(await query(shops, "SELECT * FROM Shop")).toEqual([]);
    expect(await refused("SELECT * FROM Shopp")).toBe(
      "There are no agents of class Shopp. Did you mean Shop?",
    );
    expect(await refused("SELECT * FROM Customer")).toMatch(/^There are no agents of class Customer/); // prettier-ignore
  });

  it("that no host answers is an error that says what is unreachable", async () => {
    await test.crash();
    const said = query(shops, RICH, { values: [1] }).catch(String);
    await test.advance("10 minutes");
    expect(await said).toContain("The view of all agents, which query() asks, can't be reached");
  });

  it("sees schedules that users' SQL has changed, and those that it can't arm", async () => {
    const shop = test.agent(Shop, "one");
    await shop.plan(3600);
    const rows = () => query(shops, "SELECT due, schedules FROM Shop") as Promise<[{ due: string; schedules: string }]>; // prettier-ignore
    const [{ due }] = await rows();
    await shop.replan();
    const [row] = await rows();
    expect(row.due).toBe(due);
    expect(JSON.parse(row.schedules)).toEqual(await shop.schedules());
    expect(JSON.parse(row.schedules)).toMatchObject([
      { callback: "clear", payload: "all" },
      { id: "bad", time: 0 },
    ]);
  });

  it("in `fetch` sees the writes of the caller's previous request", async () => {
    expect(await (await ask("/sell?shop=one&count=30")).text()).toBe("30");
    expect(await (await ask("/rich?least=30")).json()).toEqual([{ name: "one", sold: 30 }]);
  });

  it("in an agent sees what the turn itself has written so far", async () => {
    await test.agent(Shop, "other").sell(1);
    const rank = await test.agent(Shop, "one").sellAndRank(5);
    expect(rank).toEqual([
      { name: "one", sold: 5 },
      { name: "other", sold: 1 },
    ]);
  });

  it("wakes no agent", async () => {
    await test.agent(Shop, "one").sell(1);
    await test.advance("1 minute");
    expect(test.agent(Shop, "one").isActive()).toBe(false);
    await query(shops, "SELECT * FROM agents");
    expect(test.agent(Shop, "one").isActive()).toBe(false);
  });

  it("refuses statements that are wrong, write, or are too large, and says why", async () => {
    await test.agent(Shop, "one").sell(1);
    expect(await refused("SELEKT 1")).toBe(
      'SQLite: near "SELEKT": syntax error at offset 0: SQLITE_ERROR',
    );
    expect(await refused("SELECT colour FROM Shop")).toBe(
      "SQLite: no such column: colour at offset 7: SQLITE_ERROR",
    );
    expect(await refused("DELETE FROM Shop")).toMatch(/^SQLite: The statement writes/);
    expect(await refused("ATTACH 'x' AS y")).toMatch(/^SQLite: ATTACH/);
    expect(await refused("SELECT 1; SELECT 2")).toMatch(/^SQLite: A query must be one statement/);
    expect(await refused("SELECT ?", { values: [1, 2] })).toMatch(/^SQLite: .*2/);
    const numbers = (most: number): string =>
      `WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < ${most}) SELECT n FROM r`;
    expect(await query(shops, numbers(10_000))).toHaveLength(10_000);
    expect(await refused(numbers(10_001))).toBe(
      "The query has more than 10000 rows: add a LIMIT, or aggregate.",
    );
    const endless = numbers(Infinity).replace(" WHERE n < Infinity", "").replace("SELECT n FROM r", "SELECT max(n) FROM r"); // prettier-ignore
    expect(await refused(endless, { seconds: 0.1 })).toMatch(
      /^The query was stopped after 0.1 seconds/,
    );
    expect(await refused("SELECT printf('%.*c', 17000000, 'x') AS x")).toMatch(/larger than 16 MiB/); // prettier-ignore
    expect(await query(shops, "SELECT count(*) AS n FROM Shop")).toEqual([{ n: 1 }]);
  });

  it("refuses arguments that it can't send before it asks", async () => {
    await expect(query({} as AgentNamespace, "SELECT 1")).rejects.toThrow(/not an agent binding/);
    await expect(query(shops, undefined as unknown as string)).rejects.toThrow(
      /must be SQL, as a string/,
    );
    const misspelt = { value: [1] } as object;
    await expect(query(shops, "SELECT 1", misspelt)).rejects.toThrow(
      'query: unknown option "value"',
    );
    await expect(query(shops, "SELECT ?", { values: 5 as never })).rejects.toThrow("values must be an array"); // prettier-ignore
    const values = (value: unknown) => ({ values: [value as string] });
    await expect(query(shops, "SELECT ?", values({}))).rejects.toThrow(/value 1 of the query is an object/); // prettier-ignore
    await expect(query(shops, "SELECT ?", values(1n))).rejects.toThrow(/value 1 of the query/);
    for (const seconds of [0, 61, Number.NaN])
      await expect(query(shops, "SELECT 1", { seconds })).rejects.toThrow(RangeError);
  });
});
