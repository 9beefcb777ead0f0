/** What a copy of an agent lacks is named where it is made. Sub-agents: `cli/fork.test.ts`. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { FACETS, SubAgentTable } from "../../../core/subAgent/SubAgentTable.ts";
import type { AgentWork } from "../../../core/turn/AgentWork.ts";
import { WorkflowTable } from "../../../core/workflow/WorkflowTable.ts";
import { tellLeftBehind } from "../../../services/cli/agents/leftBehind.ts";
import { makeMemoryJournal } from "../../../services/memory/MemoryJournal.ts";
import { makeMemorySnapshots } from "../../../services/memory/MemorySnapshots.ts";
import { machineTime } from "../../../services/node/MachineTime.ts";
import { openSqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";
import { CliFixture } from "../fixture.ts";

const ID = agentId("Desk", "corner");
const FROM = agentId("Desk", "before");
let sqlite: Awaited<ReturnType<typeof openSqliteDatabases>>;
let cli: CliFixture;
let seq: Sequence;

beforeAll(async () => {
  sqlite = await openSqliteDatabases({ folder: undefined });
  cli = new CliFixture(sqlite.databases);
  const { database } = sqlite.databases.open(agentId("Live", "one"));
  const query: AgentWork["query"] = (sql, params) => database.query(sql, params);
  const runtime = { query, time: machineTime };
  const workflows = new WorkflowTable(runtime);
  for (const workflowId of ["open", "over"])
    workflows.add({ workflowId, workflowName: "REFUND_WORKFLOW", metadata: undefined });
  workflows.setStatus("over", "complete");
  new SubAgentTable(runtime, FACETS, ", deleted INTEGER NOT NULL DEFAULT 0").add("Tenant", "t1");
  const { delta, pages } = database.freeze()!;
  seq = (await cli.append(ID.class, ID.name, [{ state: { set: 1 } }], { delta, pages })) as Sequence; // prettier-ignore
  database.committed();
});
afterAll(() => sqlite?.close());

async function told(importedFrom?: AgentId): Promise<ReadonlyArray<string>> {
  const lines: string[] = [];
  const ports = {
    journal: makeMemoryJournal(cli.broker.connect()),
    snapshots: makeMemorySnapshots(cli.broker.connect()),
    databases: sqlite.databases,
  };
  const terminal = { err: (line: string) => void lines.push(line) };
  await tellLeftBehind(ports, terminal, {
    id: ID,
    atSeq: seq,
    ...(importedFrom && { importedFrom }),
  });
  return lines;
}

test("an export and a fork name all of them", async () => {
  expect(await told()).toEqual([
    "Not copied with it: 1 sub-agent (Tenant//Desk/corner/t1). Copy each by itself.",
    'Not copied with it: 1 workflow that it has started (REFUND_WORKFLOW open). What runs goes on where it is: "agents workflows".',
  ]);
});

test("an import names those that are not there yet", async () => {
  await cli.append("Tenant", "/Desk/corner/t1", [{ state: { set: 1 } }]);
  expect(await told(FROM)).toHaveLength(1);
  await cli.append("RefundWorkflow", "open", [{ state: { set: 1 } }]);
  expect(await told(FROM)).toEqual([]);
});
