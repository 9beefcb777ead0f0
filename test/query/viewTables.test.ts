/** What one row of the view says of its agent's schedules. */
import { expect, test } from "vitest";
import { NO_ROW } from "../../core/query/AgentRow.ts";
import { ViewTables } from "../../core/query/ViewTables.ts";
import type { AgentDatabase } from "../../core/database/Databases.ts";
import type { Schedule } from "../../core/schedule/Schedule.ts";
import { agentId } from "../../schemas/Address.ts";

/** `due` of an agent with schedules that are due at these seconds. */
function dueWith(times: ReadonlyArray<number>): unknown {
  const put: unknown[] = [];
  const query: AgentDatabase["query"] = (sql, params) => {
    if (sql.startsWith('INSERT INTO "Shop"')) put.push(...params);
    return { columns: [], rows: [], rowsWritten: 0, wrote: false };
  };
  const schedules = new Map<string, Schedule>();
  for (const [n, time] of times.entries())
    schedules.set(`${n}`, { id: `${n}`, callback: "tick", type: "scheduled", time });
  const tables = new ViewTables({ query } as AgentDatabase);
  tables.put(agentId("Shop", "a"), { ...NO_ROW, seq: 1, ended: false, schedules });
  return put[6];
}

test("an agent's due time is that of its first schedule", () => {
  expect(dueWith([2_000_000_000, 1_900_000_000])).toBe("2030-03-17T17:46:40.000Z");
  expect(dueWith([])).toBeNull();
});

test("a schedule that is not armed is not due", () => {
  expect(dueWith([0, 2_000_000_000])).toBe("2033-05-18T03:33:20.000Z");
  expect(dueWith([0])).toBeNull();
});

test("an agent may have more schedules than a call may have arguments", () => {
  expect(dueWith(Array(200_000).fill(2_000_000_000))).toBe("2033-05-18T03:33:20.000Z");
});
