/**
 * Names what a copy of one agent does not contain, for `agents export`, `fork` and `import`: the
 * sub-agents (those of objects, facets, too) and the workflows that go on. Each has a journal of
 * its own. The agent's lists of them are part of the copy, so that the loss would show only later.
 */
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { FACETS, listSubAgents } from "../../../core/subAgent/SubAgentTable.ts";
import { listUnended } from "../../../core/workflow/WorkflowTable.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { agentPath, idOfPath } from "../../../schemas/AgentPath.ts";
import { counted } from "../../../schemas/counted.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** Names in one line; `agents list` has all. */
const NAMED_MAX = 20;

interface Copied {
  readonly id: AgentId;
  /** The event that was copied last. */
  readonly atSeq: Sequence;
  /**
   * The agent was imported from this one, whose sub-agents are named: they have to be exported.
   * What exists here was imported before, and is not named.
   */
  readonly importedFrom?: AgentId;
}

/** Rejects as `rebuildAgent`. */
export async function tellLeftBehind(
  ports: Pick<ReadPorts, "journal" | "snapshots" | "databases">,
  terminal: Pick<Terminal, "err">,
  { id, atSeq, importedFrom }: Copied,
): Promise<void> {
  const { journal } = ports;
  const isImport = importedFrom !== undefined;
  const [done, remedy] = isImport ? ["imported", "Import"] : ["copied", "Copy"];
  const { database } = await rebuildAgent(id, { ...ports, atSeq });
  try {
    const listed = [...listSubAgents(database), ...listSubAgents(database, undefined, FACETS)];
    const names: string[] = [];
    for (const { className, name } of listed) {
      const below = (of: AgentId) => idOfPath([...agentPath(of), { className, name }]);
      if (!isImport || (await journal.last(below(id))) === undefined)
        names.push(addressKey(below(importedFrom ?? id)));
    }
    const workflows: string[] = [];
    for (const { workflowName, workflowId } of listUnended(database))
      if (!isImport || !(await isStored(journal, workflowId)))
        workflows.push(`${workflowName} ${workflowId}`);
    if (names.length > 0)
      terminal.err(
        `Not ${done} with it: ${counted(names.length, "sub-agent")} (${some(names)}). ${remedy} each by itself.`,
      );
    if (workflows.length > 0)
      terminal.err(
        `Not ${done} with it: ${counted(workflows.length, "workflow")} that it has started (${some(workflows)}). What runs goes on where it is: "agents workflows".`,
      );
  } finally {
    database.close();
  }
}

/** Whether any agent of this name is stored: the table has no class of an instance. */
async function isStored(journal: ReadPorts["journal"], name: string): Promise<boolean> {
  for await (const _ of journal.list(undefined, name)) return true;
  return false;
}

function some(names: ReadonlyArray<string>): string {
  const more = names.length > NAMED_MAX ? `, and ${names.length - NAMED_MAX} more` : "";
  return `${oneLine(names.slice(0, NAMED_MAX).join(", "))}${more}`;
}
