/** Questions that wait for one another (`core/query/Queries`): one reading, nothing stale. */
import { expect, test } from "vitest";
import { LocalImageCorrupt } from "../../core/database/Databases.ts";
import { Queries, type AnswerBytes } from "../../core/query/Queries.ts";
import { View } from "../../core/query/View.ts";
import { agentId } from "../../schemas/Address.ts";
import type { AgentsAnswer, AgentsQuestion } from "../../schemas/AgentsQuestion.ts";
import { pollUntil } from "../kit/poll.ts";
import { Fleet } from "./Fleet.ts";

const SHOP = agentId("Shop", "one");
const COUNT = {
  className: "Shop",
  sql: "SELECT state->>'n' AS n FROM Shop",
  values: [],
  seconds: 1,
};

const decode = (answer: Uint8Array): AgentsAnswer =>
  JSON.parse(new TextDecoder().decode(answer)) as AgentsAnswer;

/** Statements that run apart: each ends when `end` is called. */
class Apart {
  readonly running: string[] = [];
  private readonly ends = new Map<string, () => void>();
  readonly run = async ({ sql }: AgentsQuestion): Promise<AnswerBytes> => {
    this.running.push(sql);
    await new Promise<void>((resolve) => this.ends.set(sql, resolve));
    return new TextEncoder().encode(JSON.stringify({ columns: ["sql"], rows: [[sql]] }));
  };
  end(sql: string): void {
    this.ends.get(sql)!();
  }
}

async function open(apart?: Apart) {
  const fleet = await Fleet.open();
  const view = new View(fleet.ports.databases, "agents", { kept: false });
  const counted = { catchUps: 0, meanwhile: async (): Promise<void> => {} };
  const queries = new Queries(
    view,
    () => {
      counted.catchUps++;
      return view.catchUp(fleet.sources(Infinity, counted.meanwhile));
    },
    apart?.run,
  );
  const ask = async () => decode(await queries.answer(COUNT)).rows;
  const write = (n: number) => fleet.turn(SHOP, { state: { n } });
  return { view, queries, counted, ask, write };
}

test("queries that wait at the same time are answered from one read of the journals", async () => {
  const { counted, ask, write } = await open();
  await write(1);
  // The reading for the first has begun when the others come.
  const answers = await Promise.all(Array.from({ length: 10 }, ask));
  expect(answers).toEqual(Array.from({ length: 10 }, () => [[1]]));
  expect(counted.catchUps).toBe(2);
});

test("a query sees what was stored before it was asked, even if journals were being read then", async () => {
  const { counted, ask, write } = await open();
  await write(1);
  const late: Array<Promise<unknown>> = [];
  counted.meanwhile = async () => {
    counted.meanwhile = async () => {};
    await write(2);
    late.push(ask(), ask());
  };
  const first = await ask();
  expect(first).toEqual([[1]]);
  expect(await Promise.all(late)).toEqual([[[2]], [[2]]]);
});

test("a wrong query or a damaged view does not affect the answers to others", async () => {
  const { view, queries, counted, ask, write } = await open();
  await write(1);
  await ask();
  const { read } = view;
  let reads = 0;
  view.read = (sql, options) => {
    if (++reads === 2)
      throw new LocalImageCorrupt({ id: SHOP, page: 1, message: "a page is not what was written" });
    return read.call(view, sql, options);
  };
  const wrong = queries.answer({ ...COUNT, sql: "SELEKT" }).catch((error: Error) => error.name);
  const before = counted.catchUps;
  expect(await Promise.all([wrong, ask(), ask(), ask()])).toEqual([
    "QueryRefused",
    [[1]],
    [[1]],
    [[1]],
  ]);
  expect(counted.catchUps).toBeGreaterThan(before);
});

/** Has no end. */
const slow = (name: string) =>
  `WITH RECURSIVE ${name}(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM ${name}) SELECT max(n) FROM ${name}`;
const OF_CODE = { className: "Shop", values: [], seconds: 60 };
const OF_OPERATOR = { values: [], seconds: 60 };

test("slow statements hold neither quick ones, nor those of the other asker", async () => {
  const apart = new Apart();
  const { queries, ask, write } = await open(apart);
  await write(1);
  const asking = [
    queries.answer({ ...OF_OPERATOR, sql: slow("operator") }),
    queries.answer({ ...OF_OPERATOR, sql: slow("behind") }),
    queries.answer({ ...OF_CODE, sql: slow("code") }),
  ];
  await pollUntil("one of each asker runs", () => apart.running.length === 2 || { done: false, saw: apart.running }); // prettier-ignore
  expect(apart.running.toSorted()).toEqual([slow("code"), slow("operator")]);
  expect(await ask()).toEqual([[1]]);
  for (const name of ["code", "operator"]) apart.end(slow(name));
  await pollUntil("the next runs", () => apart.running.length === 3 || { done: false, saw: apart.running }); // prettier-ignore
  apart.end(slow("behind"));
  const answers = (await Promise.all(asking)).map((answer) => decode(answer).rows);
  expect(answers).toEqual([[[slow("operator")]], [[slow("behind")]], [[slow("code")]]]);
});

test("questions of code that wait are answered before those of operators", async () => {
  const { queries, ask, write } = await open();
  await write(1);
  const order: string[] = [];
  const operator = async (n: number) => {
    await queries.answer({ ...OF_OPERATOR, sql: `SELECT ${n}` });
    order.push("operator");
  };
  const code = async () => {
    await ask();
    order.push("code");
  };
  // The first is read at once, and the others wait for it.
  await Promise.all([operator(0), operator(1), operator(2), code(), code()]);
  expect(order).toEqual(["operator", "code", "code", "operator", "operator"]);
});

test("an erasure is confirmed once no copy of the view is left that was made before", async () => {
  const apart = new Apart();
  const { queries, write } = await open(apart);
  await write(1);
  const asking = queries.answer({ ...OF_OPERATOR, sql: slow("operator") });
  await pollUntil("it runs on a copy", () => apart.running.length === 1 || { done: false, saw: 0 });
  const order: string[] = [];
  const erased = queries.erased().then(() => order.push("erased"));
  await queries.answer(COUNT);
  order.push("a later question");
  apart.end(slow("operator"));
  await Promise.all([asking, erased]);
  expect(order).toEqual(["a later question", "erased"]);
});
