/**
 * Questions over all agents that wait for one another (`core/query/Queries`): how often the
 * journals are read for them, and that each has what was stored before it was asked.
 */
import { expect, test } from "vitest";
import { LocalImageCorrupt } from "../../core/database/Databases.ts";
import { Queries } from "../../core/query/Queries.ts";
import { View } from "../../core/query/View.ts";
import { agentId } from "../../schemas/Address.ts";
import type { AgentsAnswer } from "../../schemas/AgentsQuestion.ts";
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

async function open() {
  const fleet = await Fleet.open();
  const view = new View(fleet.ports.databases, "agents", { kept: false });
  const counted = { catchUps: 0, meanwhile: async (): Promise<void> => {} };
  const queries = new Queries(view, () => {
    counted.catchUps++;
    return view.catchUp(fleet.sources(Infinity, counted.meanwhile));
  });
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
