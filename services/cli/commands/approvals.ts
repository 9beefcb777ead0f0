/**
 * `agents approvals <class> [name] [--at …] [--all]`: prints approvals, oldest first, from copies
 * of the agents that are rebuilt from their journals. Deciding them is left to links and to methods
 * of the agent.
 */
import type { Command } from "commander";
import { listApprovals } from "../../../core/approval/Approvals.ts";
import type { Rebuilt } from "../../../core/journal/rebuildAgent.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { counted } from "../../../schemas/counted.ts";
import type { AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { existingClass } from "../agents/findAgent.ts";
import { withAgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { at as atOption, type Point } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface ApprovalsOptions {
  readonly className: string;
  /** Undefined: all agents of the class. */
  readonly name: string | undefined;
  readonly at?: Point | undefined;
  /** Include those that are decided or over. */
  readonly all?: boolean | undefined;
  readonly json?: boolean | undefined;
}

type Given = GivenTarget & Partial<ApprovalsOptions>;

export function addApprovals(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("approvals"), "<class>", "[name]")
    .description(
      "Lists the open approvals of an agent (this.approval, waitForApproval), oldest first. For a workflow, give its class and the instance's id. Without a name, every agent of the class is rebuilt from its journal, one after the other.",
    )
    .option("--all", "also approvals that are decided or expired")
    .addOption(atOption(joins.time))
    .addHelpText(
      "after",
      `
--json prints one object a line:
  {class, name, id, approval, prompt, status, askedAt, expiresAt, decidedAt, by, reason, metadata?}

Examples:
  agents approvals OrderWorkflow
  agents approvals OrderWorkflow wf_42 --all
  agents approvals refund-workflow --json | jq -r .prompt`,
    )
    .action((className: string, name: string | undefined, given: Given) =>
      withPorts(context, given, (ports) =>
        approvals(ports, terminal, joins.time, { ...given, className, name }),
      ),
    );
}

/** Throws `CliError` if the class or agent does not exist. */
async function approvals(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  { className, name, at, all, json }: ApprovalsOptions,
): Promise<void> {
  let count = 0;
  const print = (id: AgentId, { database, image }: Rebuilt): void => {
    const nowMs = at === undefined ? time.nowMs() : image.timeMs;
    for (const { name: approval, ...rest } of listApprovals(database, nowMs).toReversed()) {
      if (!all && rest.status !== "waiting") continue;
      count++;
      const { askedAt, expiresAt, decidedAt } = rest;
      const line = {
        class: id.class,
        name: id.name,
        ...rest,
        approval,
        askedAt: isoOf(askedAt),
        expiresAt: isoOf(expiresAt),
        decidedAt: decidedAt === null ? null : isoOf(decidedAt),
      };
      terminal.out(json ? JSON.stringify(line) : textOf(line));
    }
  };
  for await (const each of namesOf(ports, className, name))
    await withAgentAt(ports, { className, name: each, at, orNone: name === undefined }, print);
  if (json) return;
  const what = counted(count, "approval");
  terminal.err(count === 0 ? (all ? "No approvals." : "No open approvals.") : what);
}

async function* namesOf(
  { journal }: ReadPorts,
  className: string,
  name: string | undefined,
): AsyncGenerator<string> {
  if (name !== undefined) return yield name;
  for await (const { id } of journal.list(await existingClass(journal, className))) yield id.name;
}

const isoOf = (ms: number): string => new Date(ms).toISOString();

interface Line {
  readonly class: string;
  readonly name: string;
  readonly id: string;
  readonly approval: string;
  readonly prompt: string | null;
  readonly status: string;
  readonly expiresAt: string;
  readonly decidedAt: string | null;
  readonly by: string | null;
  readonly reason: string | null;
}

function textOf(line: Line): string {
  const { approval, prompt, status, expiresAt, decidedAt, by, reason, id } = line;
  const decided = [
    ...(by === null ? [] : [`by ${by}`]),
    ...(decidedAt === null ? [] : [`at ${decidedAt}`]),
    ...(reason === null ? [] : [`(${reason})`]),
  ];
  const until = status === "waiting" ? [`until ${expiresAt}`] : decided;
  return [
    oneLine(`${line.class} ${line.name}: ${approval}${prompt === null ? "" : `: ${prompt}`}`),
    oneLine(`    ${[status, ...until].join(" ")}, id ${id}`),
  ].join("\n");
}
