/**
 * `agents schedules <class> <name> [--at …]`: an agent's schedules, the next first, from its table as
 * the journal rebuilds it. What the table says is what will run.
 */
import {
  ScheduleTable,
  toSchedule,
  type ScheduleRow,
} from "../../../core/schedule/ScheduleTable.ts";
import { dueOf } from "../../../core/schedule/dueTimes.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import type { Terminal } from "../Terminal.ts";
import { withAgentAt, type AgentAt } from "../withAgentAt.ts";

export interface SchedulesOptions extends AgentAt {
  readonly json: boolean;
}

export const schedules = (
  ports: ReadPorts,
  terminal: Terminal,
  options: SchedulesOptions,
): Promise<void> =>
  withAgentAt(ports, options, (_id, { database }) => {
    const rows = new ScheduleTable(database)
      .all()
      .toSorted((a, b) => (dueOf(a) ?? Infinity) - (dueOf(b) ?? Infinity));
    for (const row of rows) terminal.out(options.json ? JSON.stringify(listed(row)) : line(row));
    if (options.json) return;
    const count = `${rows.length} ${rows.length === 1 ? "schedule" : "schedules"}`;
    terminal.err(rows.length === 0 ? "Nothing is scheduled." : count);
  });

/** One line of `--json`. `due` is ISO 8601, null for a row that can't be armed. */
function listed(row: ScheduleRow) {
  const { time: _rounded, ...schedule } = toSchedule(row);
  return {
    ...schedule,
    due: isoOf(row) ?? null,
    ...(row.timezone === null ? {} : { timezone: row.timezone }),
    misfire: row.misfire,
    running: row.running,
  };
}

function line(row: ScheduleRow): string {
  const { type, cron, timezone, intervalSeconds, callback, payload, id } = row;
  const rule =
    type === "cron"
      ? `cron ${cron}${timezone === null ? "" : ` (${timezone})`}`
      : type === "interval"
        ? `every ${intervalSeconds} s`
        : "once";
  const running = row.running ? ", running now" : "";
  return `${isoOf(row) ?? "never (its row can't be armed)"}  ${callback}(${payload ?? ""})\n    ${rule}${running}, id ${id}`;
}

function isoOf(row: ScheduleRow): string | undefined {
  const dueMs = dueOf(row);
  return dueMs === undefined ? undefined : new Date(dueMs).toISOString();
}
