/**
 * What an agent that is put back to an earlier point keeps as it is: what others have received of
 * it, what it has asked of others, and which agents of their own go on beside it. Put back, it
 * would be sent or spent a second time, and readers would find chunks and numbers anew that they
 * have already. Done keys of inputs are no rows; `applyEvent` keeps them.
 *
 * All else is put back, fibers and the list of MCP servers with it.
 */
import { copyTable } from "../database/copyTable.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { copyAlarm } from "../stream/ExpiryAlarm.ts";
import { copySubAgents } from "../subAgent/SubAgentTable.ts";

const KEPT = [
  // What waits to be sent: webhooks, mail, signals to workflows.
  "svc_agents_outgoing", "svc_agents_mail", "svc_agents_signals",
  // Durable streams, kept broadcasts, what MCP sessions have sent. `copyAlarm`: when they expire.
  "cf_agents_streams", "cf_agents_stream_chunks", "cf_agents_kept_messages",
  "cf_agents_mcp_events", "cf_agents_mcp_streams",
  // Calls of durable methods, and what they have ended with: their callers have that.
  "svc_agents_calls", "svc_agents_call_results",
  // What is spent of its budgets.
  "cf_agents_budgets", "cf_agents_spends",
  // What people were asked and have answered: a link decides once.
  "cf_agents_approvals",
  // Its workflows, like its sub-agents, go on. Without its row one could not be stopped.
  "cf_agents_workflows",
] as const; // prettier-ignore

/** Puts it from the agent's present database into the past one, as committed. */
export function keepSent(now: AgentDatabase, past: AgentDatabase): void {
  if (now.isEmpty && past.isEmpty) return;
  for (const table of KEPT) copyTable(now, past, table);
  copySubAgents(now, past);
  copyAlarm(now, past);
  if (past.freeze() !== undefined) past.committed();
}
