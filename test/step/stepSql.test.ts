/** SQL in the function of a step: it reads what SQL elsewhere reads, within the same limits. */
import { expect, test } from "vitest";
import { Agent, callable } from "agents";
import { testAgents } from "agents/testing";

class Reader extends Agent {
  static override options = { http: "open" as const, sqlRowsMax: 1_000, retry: { maxAttempts: 1 } };

  tick(): void {}
  @callable({ durable: true })
  read(sql: string): Promise<unknown> {
    return this.step("read", () => this.ctx.storage.sql.exec(sql).toArray() as never);
  }
  @callable({ durable: true })
  async planAndRead(sql: string): Promise<unknown> {
    await this.schedule(60, "tick");
    return this.read(sql);
  }
}

const counting = (to: number): string =>
  `WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < ${to}) SELECT x FROM c`;

test("a step can select from the table of schedules before there is one", async () => {
  await using installation = await testAgents({ agents: [Reader] });
  const reader = installation.agent(Reader, "a");
  const count = "SELECT count(*) AS n FROM svc_agents_schedules";
  expect(await reader.read(count)).toEqual([{ n: 0 }]);
  expect(await reader.planAndRead(count)).toEqual([{ n: 1 }]);
  await installation.crash();
  expect(await reader.schedules()).toHaveLength(1);
});

test("a step's SQL returns no more rows than the class allows", async () => {
  await using installation = await testAgents({ agents: [Reader] });
  const reader = installation.agent(Reader, "a");
  expect(await reader.read(counting(1_000))).toHaveLength(1_000);
  await expect(reader.read(counting(1_001))).rejects.toThrow("sqlRowsMax");
  await expect(reader.read("DELETE FROM svc_agents_schedules")).rejects.toThrow(/step "read"/);
});
