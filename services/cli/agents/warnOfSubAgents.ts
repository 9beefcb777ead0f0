/**
 * Names the sub-agents of an agent that is copied: each is an agent with a journal of its own, and
 * a copy of its parent has none of them. The parent's list of them is part of the copy, so that the
 * loss would show only in their state.
 */
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { listSubAgents } from "../../../core/subAgent/SubAgentTable.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { agentPath, idOfPath } from "../../../schemas/AgentPath.ts";
import { counted } from "../../../schemas/counted.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** Names in one line; `agents list` has all. */
const NAMED_MAX = 20;

/** `atSeq`: the event that was copied last. */
export async function warnOfSubAgents(
  { journal, snapshots, databases }: Pick<ReadPorts, "journal" | "snapshots" | "databases">,
  terminal: Pick<Terminal, "err">,
  id: AgentId,
  atSeq: Sequence,
): Promise<void> {
  const { database } = await rebuildAgent(id, { journal, snapshots, databases, atSeq });
  try {
    const names = listSubAgents(database).map(({ className, name }) =>
      addressKey(idOfPath([...agentPath(id), { className, name }])),
    );
    if (names.length === 0) return;
    const more = names.length > NAMED_MAX ? `, and ${names.length - NAMED_MAX} more` : "";
    terminal.err(
      `Not copied with it: ${counted(names.length, "sub-agent")} (${names.slice(0, NAMED_MAX).join(", ")}${more}). Copy each by itself.`,
    );
  } finally {
    database.close();
  }
}
