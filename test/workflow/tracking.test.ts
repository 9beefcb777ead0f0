/** What an agent's row says of an instance that ends while it is asked for its status. */
import { expect, test } from "vitest";
import type { InstanceStatus } from "../../core/workflow/WorkflowCalls.ts";
import { WorkflowApi, type WorkflowApiAgent } from "../../core/workflow/WorkflowApi.ts";
import { agentId } from "../../schemas/Address.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";

async function tracked(ask: () => Promise<InstanceStatus>) {
  const { databases } = await openSqliteDatabases({ folder: undefined });
  const id = agentId("Shop", "s1");
  const { database } = databases.open(id);
  const instance = { status: ask, control: ask };
  const api = new WorkflowApi({
    id,
    time: { nowMs: () => 1, id: () => "1" },
    log: {},
    query: (sql: string, binds: []) => database.query(sql, binds),
    emit: () => undefined,
    agent: { onWorkflowCallback: async () => undefined },
    signals: {
      binding: () => ({ idOf: () => id, instance: () => instance }),
      send: () => undefined,
    },
  } as unknown as WorkflowApiAgent);
  const workflowId = api.run("Order", {}, {});
  const report = { kind: "callback", workflowName: "Order", workflowId, time: 2 } as const;
  return { api, workflowId, report };
}

test("an older answer does not undo the report of its end", async () => {
  const asked = tracked(async () => {
    const { api, report } = await asked;
    await api.receive({ ...report, type: "complete", value: 1 });
    return { status: "running" };
  });
  const { api, workflowId } = await asked;
  expect(await api.status("Order", workflowId)).toEqual({ status: "running" });
  expect(api.get(workflowId)?.status).toBe("complete");
});

test("a restart replaces the end that it began with", async () => {
  const { api, workflowId, report } = await tracked(async () => ({ status: "running" }));
  await api.receive({ ...report, type: "error", value: "no" });
  expect(api.get(workflowId)?.status).toBe("errored");
  await api.control(workflowId, "restart");
  expect(api.get(workflowId)?.status).toBe("running");
});
