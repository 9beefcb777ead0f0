/**
 * What an agent that is put back to an earlier point keeps as it is: what others have received of
 * it, and what it has asked of others. Put back, it would be sent or spent a second time, and
 * readers would find chunks and numbers anew that they have already.
 *
 * - what waits to be sent: webhooks, mail, signals to workflows;
 * - durable streams, kept broadcasts, and the alarm by which they expire;
 * - what is spent of its budgets;
 * - calls of durable methods, and what they have ended with: their callers have that;
 * - what people were asked and have answered: a link decides once;
 * - which sub-agents there are: each has a life of its own.
 *
 * Done keys of inputs are no rows; `applyEvent` keeps them.
 */
import { copyTable } from "../database/copyTable.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { copyAlarm } from "../stream/ExpiryAlarm.ts";
import { copySubAgents } from "../subAgent/SubAgentTable.ts";

const KEPT = [
  "svc_agents_outgoing", "svc_agents_mail", "svc_agents_signals",
  "cf_agents_streams", "cf_agents_stream_chunks", "cf_agents_kept_messages",
  "svc_agents_calls", "svc_agents_call_results", "cf_agents_budgets", "cf_agents_spends", "cf_agents_approvals",
] as const; // prettier-ignore

/** Puts it from the agent's present database into the past one, as committed. */
export function keepSent(now: AgentDatabase, past: AgentDatabase): void {
  if (now.isEmpty && past.isEmpty) return;
  for (const table of KEPT) copyTable(now, past, table);
  copySubAgents(now, past);
  copyAlarm(now, past);
  if (past.freeze() !== undefined) past.committed();
}
