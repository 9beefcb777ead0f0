/**
 * `agents schedules <class> <name> [--at …]`: prints an agent's schedules, the next first, from its
 * table as rebuilt from the journal. The table determines what will run.
 */
import type { Command } from "commander";
import { DUE_MS_MAX, dueOf } from "../../../core/schedule/dueTimes.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { counted } from "../../../schemas/counted.ts";
import {
  ScheduleTable,
  toSchedule,
  type ScheduleRow,
} from "../../../core/schedule/ScheduleTable.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { withAgentAt, type AgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { at } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface SchedulesOptions extends AgentAt {
  readonly json?: boolean | undefined;
}

type Given = GivenTarget & Partial<SchedulesOptions>;

export function addSchedules(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("schedules"), "<class>", "<name>")
    .description(
      "Lists an agent's schedules, the next one first, from a copy rebuilt from its journal. Only the agent's code changes them: see this.schedule, this.cancelSchedule and the table svc_agents_schedules.",
    )
    .addOption(at(joins.time))
    .addHelpText(
      "after",
      `
--json prints one object a line:
  {id, type, callback, payload?, due, cron?, timezone?, intervalSeconds?, delayInSeconds?,
   misfire, running, retry?}

Examples:
  agents schedules repo-agent octocat~hello-world
  agents schedules RepoAgent octocat~hello-world --json | jq -r .due`,
    )
    .action((className: string, name: string, given: Given) =>
      withPorts(context, given, (ports) =>
        schedules(ports, terminal, { ...given, className, name }),
      ),
    );
}

/** Throws `CliError` if the agent did not exist at that point. */
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
    const count = counted(rows.length, "schedule");
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
  const due = isoOf(row) ?? "never (its row can't be armed)";
  return [`${due}  ${callback}(${payload ?? ""})`, `    ${rule}${running}, id ${id}`]
    .map(oneLine)
    .join("\n");
}

function isoOf(row: ScheduleRow): string | undefined {
  const dueMs = dueOf(row) ?? Infinity;
  // SQL can set any number.
  return Math.abs(dueMs) > DUE_MS_MAX ? undefined : new Date(dueMs).toISOString();
}
