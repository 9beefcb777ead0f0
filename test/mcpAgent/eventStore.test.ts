/** How many of its messages a session keeps for a client that comes back. */
import { expect, test } from "vitest";
import { Agent } from "agents";
import { testAgents } from "agents/testing";
import { DurableObjectEventStore } from "../../services/mcpAgent/DurableObjectEventStore.ts";

const MIB = 1024 * 1024;

class StoreAgent extends Agent {
  /** Stores messages of these lengths. Returns the ids of those that are kept. */
  async keep(lengths: ReadonlyArray<number>): Promise<number[]> {
    const store = new DurableObjectEventStore(this.ctx.storage as never);
    for (const length of lengths) {
      const params = { text: "x".repeat(length) };
      await store.storeEvent("s", { jsonrpc: "2.0", method: "notifications/message", params });
    }
    const rows = this.sql<{ id: number }>`SELECT id FROM cf_agents_mcp_events ORDER BY id`;
    return rows.map(({ id }) => id);
  }
}

test.each([
  { what: "a thousand short ones", lengths: Array<number>(1_003).fill(10), kept: 1_000 },
  // The second has no room beside the three after it.
  { what: "16 MiB of long ones", lengths: [10, 8 * MIB, 3 * MIB, 3 * MIB, 3 * MIB], kept: 3 },
  { what: "the newest, however long", lengths: [10, 17 * MIB], kept: 1 },
])("a session keeps the newest: $what", async ({ lengths, kept }) => {
  const all = await testAgents({ agents: [StoreAgent] });
  const ids = Array.from({ length: lengths.length }, (_, index) => index + 1);
  expect(await all.agent(StoreAgent, "one").keep(lengths)).toEqual(ids.slice(-kept));
  await all.close();
});
