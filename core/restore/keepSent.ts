/**
 * The tables that a restore to an earlier point leaves as they are: what others have received from
 * the agent, what it has asked of others, and the agents that it has started. If these rows were
 * restored, the agent would send or spend a second time, and readers would receive chunks and
 * numbers that they already have. The done keys of inputs are not rows; `applyEvent` keeps them.
 *
 * Everything else is restored, including fibers and the list of MCP servers. The names of the
 * tables are those of the files that make them.
 */
import { BUDGET_TABLES } from "../budget/Budgets.ts";
import { copyTable } from "../database/copyTable.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { withoutTriggers } from "../database/withoutTriggers.ts";
import { CALLS_TABLE } from "../durableCall/CallLane.ts";
import { RESULTS_TABLE } from "../durableCall/CallResults.ts";
import { MCP_EVENTS, MCP_STREAMS } from "../mcp/mcpSessionTables.ts";
import { MAIL_TABLE } from "../outgoing/MailLane.ts";
import { OUTGOING_TABLE } from "../outgoing/OutgoingLane.ts";
import { copyAlarm } from "../stream/ExpiryAlarm.ts";
import { copyKeptMessages } from "../stream/KeptMessages.ts";
import { copyStreams } from "../stream/StreamTable.ts";
import { copySubAgents } from "../subAgent/SubAgentTable.ts";
import { SIGNALS_TABLE } from "../workflow/SignalLane.ts";
import { WORKFLOWS_TABLE } from "../workflow/WorkflowTable.ts";
import { keepApprovals } from "./keepApprovals.ts";

const KEPT = [
  // What waits to be sent: webhooks, mail, signals to workflows.
  OUTGOING_TABLE, MAIL_TABLE, SIGNALS_TABLE,
  // What MCP sessions have sent.
  MCP_EVENTS, MCP_STREAMS,
  // Calls of durable methods, and what they have ended with: their callers have that.
  CALLS_TABLE, RESULTS_TABLE,
  // What is spent of its budgets.
  ...BUDGET_TABLES,
  // Its workflows, like its sub-agents, continue. One without a row could not be stopped.
  WORKFLOWS_TABLE,
]; // prettier-ignore

/** Puts it from the agent's present database into the past one, as committed. */
export function keepSent(now: AgentDatabase, past: AgentDatabase): void {
  if (now.isEmpty && past.isEmpty) return;
  withoutTriggers(past, () => {
    for (const table of KEPT) copyTable(now, past, table);
    copyStreams(now, past);
    copyKeptMessages(now, past);
    // When the two expire.
    copyAlarm(now, past);
    copySubAgents(now, past);
    keepApprovals(now, past);
  });
  if (past.freeze() !== undefined) past.committed();
}
