/**
 * Workflows are tested like agents: whole, in memory, a week in no time
 * (`docs/guides/workflows.md`).
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as server from "./server.ts";

let test: TestAgents;
beforeEach(async () => {
  server.ledger.length = 0;
  test = await testAgents({ module: server });
});
afterEach(() => test.close());

const path = "/agents/customer/ann";
async function order(item: string, price: number): Promise<string> {
  const response = await test.fetch(path, {
    method: "POST",
    body: JSON.stringify({ item, price }),
  });
  await test.advance("1 s");
  return ((await response.json()) as { id: string }).id;
}
const news = async () => (await test.agent(server.Customer, "ann").state())?.news;

describe("an order", () => {
  it("is reserved, charged and shipped, under a key that a shop can tell again", async () => {
    const id = await order("hat", 20);
    expect(server.ledger).toEqual([
      `reserved hat (OrderWorkflow/${id}/1:1:reserve)`,
      "charged 20",
      "shipped hat",
    ]);
    expect(await news()).toEqual(["hat is on its way"]);
  });

  it("that can't be shipped is taken back, the last step first", async () => {
    await order("anvil", 50);
    expect(server.ledger.slice(1)).toEqual(["charged 50", "refunded 50", "released anvil"]);
    expect(await news()).toEqual(["an order came to nothing: nobody carries anvils"]);
  });

  it("that is dear waits for a person, over days and over a host's death", async () => {
    const id = await order("piano", 9_000);
    await test.advance("3 days");
    await test.crash();
    await test.revive();
    expect(server.ledger).toHaveLength(2);
    expect(await (await test.fetch(path)).json()).toMatchObject({
      orders: [{ workflowId: id, status: "waiting" }],
    });
    await test.fetch(`${path}?approve=${id}`, { method: "POST" });
    await test.advance("1 s");
    expect(server.ledger.slice(2)).toEqual(["shipped piano"]);
  });

  it("that nobody approves within a week is taken back", async () => {
    await order("piano", 9_000);
    await test.advance("8 days");
    expect(server.ledger.slice(2)).toEqual(["refunded 9000", "released piano"]);
  });

  it("that is none, or is not known, is the caller's mistake", async () => {
    for (const body of ["not JSON", "null", '{"item":"hat"}'])
      expect((await test.fetch(path, { method: "POST", body })).status).toBe(400);
    for (const query of ["approve=none", "reject=none"])
      expect((await test.fetch(`${path}?${query}`, { method: "POST" })).status).toBe(404);
    expect(server.ledger).toEqual([]);
  });

  it("that is refused is taken back, and the reason is told once", async () => {
    const id = await order("piano", 9_000);
    await test.fetch(`${path}?reject=${id}`, { method: "POST" });
    await test.advance("1 s");
    expect(server.ledger.slice(2)).toEqual(["refunded 9000", "released piano"]);
    expect(await news()).toEqual(["an order came to nothing: too dear"]);
  });
});
