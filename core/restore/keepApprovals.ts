/**
 * The approvals of an agent that is put back: what people have decided stays decided, since a link
 * decides once. Part of `keepSent`.
 *
 * 1. A question that waited at that point belongs to the fiber or the workflow's step that asked
 *    it, which is put back: where it was withdrawn or passed on to a later fiber since, it waits
 *    again.
 * 2. A question whose fiber is not there any more is withdrawn, as when a fiber ends: nothing would
 *    continue with its answer. A workflow's step that is run again withdraws its earlier question
 *    itself.
 */
import { APPROVALS_TABLE } from "../approval/Approvals.ts";
import { copyTable } from "../database/copyTable.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { tableExists } from "../database/tableExists.ts";
import { startOfKeys } from "../fiber/FiberApprovals.ts";
import { owedFibers } from "../fiber/FiberTable.ts";

export function keepApprovals(now: AgentDatabase, past: AgentDatabase): void {
  const before = tableExists(past, APPROVALS_TABLE)
    ? past.query(`SELECT id, key, status FROM ${APPROVALS_TABLE} WHERE key NOT NULL`, []).rows
    : [];
  copyTable(now, past, APPROVALS_TABLE);
  if (!tableExists(past, APPROVALS_TABLE)) return;
  // Rule 1. A key that another question has by now stays with that.
  for (const [id, key, status] of before)
    past.query(
      `UPDATE ${APPROVALS_TABLE} SET key = ?1, status = iif(status = 'withdrawn', ?2, status)
       WHERE id = ?3 AND NOT EXISTS (SELECT 1 FROM ${APPROVALS_TABLE} WHERE key = ?1 AND id <> ?3)`,
      [key!, status!, id!],
    );
  // Rule 2. A workflow's question can be answered by an event, too.
  const fibers = owedFibers(past).map(startOfKeys);
  const waiting = `SELECT id, key FROM ${APPROVALS_TABLE} WHERE status = 'waiting' AND event_type IS NULL`;
  for (const [id, key] of past.query(waiting, []).rows)
    if (!fibers.some((start) => String(key).startsWith(start)))
      past.query(`UPDATE ${APPROVALS_TABLE} SET status = 'withdrawn' WHERE id = ?`, [id!]);
}
