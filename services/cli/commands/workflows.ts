/**
 * `agents workflows <class> <name> [--at …]`: the steps of a workflow instance
 * (`core/workflow/RecordedRun`), and the instances that an agent has started. Both are read from a
 * copy that is rebuilt from the journal, so no agent is woken.
 */
import { Option, type Command } from "commander";
import { readFromBase } from "../../../core/journal/Beginnings.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { counted } from "../../../schemas/counted.ts";
import {
  recordedRun,
  runOf,
  StepTurns,
  type RecordedRun,
  type RecordedStep,
} from "../../../core/workflow/RecordedRun.ts";
import {
  readCursor,
  WorkflowTable,
  type WorkflowInfo,
} from "../../../core/workflow/WorkflowTable.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { findWorkflowClass } from "../agents/findWorkflowClass.ts";
import { withAgentAt, type AgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { parsed } from "../options/argumentParsers.ts";
import * as option from "../options/options.ts";
import { at } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { usage } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface WorkflowsOptions extends AgentAt {
  /** Number of steps or instances on a page. */
  readonly limit?: number | undefined;
  /** Position of the last step on the page; undefined: the last step of all. */
  readonly to?: number | undefined;
  /** `cursor` of the previous page of instances. */
  readonly cursor?: string | undefined;
  readonly json?: boolean | undefined;
}

/** An instance, as the agent that started it knows it. */
type StartedWorkflow = Omit<WorkflowInfo, "id" | "createdAt" | "updatedAt" | "completedAt"> & {
  /** The class of the instance. Absent if no instance of the binding is stored. */
  readonly class?: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly completedAt: string | null;
};

/** What `--json` prints. */
export interface Workflows {
  /** The event after which the agent was in this state. */
  readonly seq: number;
  /** ISO 8601. */
  readonly time: string;
  /** Absent if the agent is not a workflow instance. */
  readonly run?: RecordedRun;
  readonly started: ReadonlyArray<StartedWorkflow>;
  /** How many there are on all pages. */
  readonly startedTotal: number;
  /** Where the next page of started instances begins. Absent if there is none. */
  readonly cursor?: string;
}

/** A few screens. */
const LIMIT_DEFAULT = 100;

type Given = GivenTarget & Pick<WorkflowsOptions, "at" | "limit" | "to" | "cursor">;

export function addWorkflows(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("workflows"), "<class>", "<name>")
    .description(
      "Shows the steps of a workflow instance (class and id of the workflow), or the instances that an agent has started. Reads a copy that is rebuilt from the journal, and wakes no agent.",
    )
    .addOption(at(joins.time))
    .addOption(
      option.count(
        "--limit <count>",
        `steps or instances of a page (default: ${LIMIT_DEFAULT}; of instances at most 100)`,
      ),
    )
    .addOption(
      option.count(
        "--to <position>",
        "position of the page's last step (default: the last of all)",
      ),
    )
    .addOption(
      new Option(
        "--cursor <cursor>",
        "where the next page of instances begins, as printed with the previous one",
      ).argParser(parsed(checkCursor)),
    )
    .addHelpText(
      "after",
      `
Steps that were open at the same time have different indents. The status of an instance that an
agent has started is the last one that it reported to the agent.

--json prints one object: {seq, time, run?, started, startedTotal, cursor?}
  run: {workflow, status, started, generation, agent?, params?, output?, error?, undoing?, events,
    counts: {steps, done, failed, undone}, steps: [{key, name, call, kind, position, lane, from?,
    row, rowEnd, state, attempts, failures, began?, ended?, until?, eventType?, result?,
    resultChars?, error?, undo?}], earlier?, later?}
  started: [{class?, workflowId, workflowName, status, metadata, error, createdAt, updatedAt,
    completedAt}]
began and ended are {seq, time} of the events that stored them. earlier and later are the values of
--to for the previous and the next page.

Examples:
  agents workflows order-workflow wf_42
  agents workflows OrderWorkflow wf_42 --json | jq '.run.steps[] | select(.state == "failed")'
  agents workflows Shop corner`,
    )
    .action((className: string, name: string, given: Given) =>
      withPorts(context, given, (ports) =>
        workflows(ports, terminal, joins.time, { ...given, className, name }),
      ),
    );
}

/** Rejects with `CliError` if the agent does not exist at that point, or the cursor is wrong. */
export async function workflows(
  ports: ReadPorts,
  terminal: Terminal,
  time: TimeShape,
  { limit = LIMIT_DEFAULT, to, cursor, json, ...wanted }: WorkflowsOptions,
): Promise<void> {
  await withAgentAt(ports, wanted, async (id, { database, seq, time: timeMs }) => {
    const turns = new StepTurns();
    if (runOf(database) !== undefined) await readTurns(ports, id, seq, turns);
    const run = recordedRun(database, turns, { to, limit });
    const table = new WorkflowTable({ query: (sql, params) => database.query(sql, params), time });
    const page = table.page({
      limit,
      ...(cursor !== undefined && { cursor: checkCursor(cursor) }),
    });
    const found: Workflows = {
      seq,
      time: new Date(timeMs).toISOString(),
      ...(run && { run }),
      started: await withClasses(ports, id, page.workflows),
      startedTotal: page.total,
      ...(page.nextCursor === null ? {} : { cursor: page.nextCursor }),
    };
    if (json) return terminal.out(JSON.stringify(found));
    for (const line of lines(id, found)) terminal.out(line);
    if (run === undefined && found.started.length === 0)
      terminal.err(`${addressKey(id)} is not a workflow instance, and has started none.`);
    if (run?.earlier !== undefined)
      terminal.err(
        `${counted(run.counts.steps, "step")} in all. For earlier ones, use --to ${run.earlier}.`,
      );
    if (found.cursor !== undefined)
      terminal.err(
        `${counted(found.startedTotal, "instance")} in all. For the next ones, use --cursor ${found.cursor}`,
      );
  });
}

async function readTurns(ports: ReadPorts, id: AgentId, seq: Sequence, turns: StepTurns) {
  for await (const read of readFromBase(id, ports, { toSeq: seq }))
    if (read._tag === "Event") turns.add(read.event.seq, read.decode().head);
}

/** Throws `CliError`. */
function checkCursor(cursor: string): string {
  try {
    readCursor(cursor);
  } catch {
    throw usage("Use the cursor that --json or the previous page printed.");
  }
  return cursor;
}

async function withClasses(
  ports: ReadPorts,
  starter: AgentId,
  infos: ReadonlyArray<WorkflowInfo>,
): Promise<ReadonlyArray<StartedWorkflow>> {
  const classes = new Map<string, string | undefined>();
  for (const name of new Set(infos.map(({ workflowName }) => workflowName))) {
    const named = infos.filter(({ workflowName }) => workflowName === name);
    const ids = named.map(({ workflowId }) => workflowId);
    classes.set(name, await findWorkflowClass(ports, starter, name, ids));
  }
  return infos.map(({ id: _id, createdAt, updatedAt, completedAt, ...info }) => {
    const className = classes.get(info.workflowName);
    return {
      ...info,
      ...(className === undefined ? {} : { class: className }),
      createdAt: createdAt.toISOString(),
      updatedAt: updatedAt.toISOString(),
      completedAt: completedAt?.toISOString() ?? null,
    };
  });
}

function lines(id: AgentId, { run, started }: Workflows): ReadonlyArray<string> {
  return [
    ...(run === undefined ? [] : runLines(id, run)),
    ...started.map(({ workflowId, workflowName, class: className, status, createdAt, error }) =>
      oneLine(
        `${createdAt}  ${status}  ${className ?? workflowName} ${workflowId}${className === undefined ? " (no instance stored)" : ""}${error === null ? "" : `  ${error.message}`}`,
      ),
    ),
  ];
}

function runLines(id: AgentId, run: RecordedRun): ReadonlyArray<string> {
  const { workflow, status, started, agent, generation, counts, error, output, undoing } = run;
  const by = agent === undefined ? "" : `, by ${agent.join("/")} as ${workflow}`;
  const again = generation === 1 ? "" : `, restarted ${counted(generation - 1, "time")}`;
  const undone = counts.undone === 0 ? "" : `, ${counts.undone} undone`;
  const detail = (name: string, text: string | undefined): string[] =>
    text === undefined ? [] : [oneLine(`    ${name.padEnd(10)}${text}`)];
  return [
    oneLine(`${addressKey(id)}  ${status}  started ${started}${by}${again}`),
    `    ${counted(counts.steps, "step")}, ${counts.done} done, ${counts.failed} failed${undone}`,
    ...detail("params", run.params),
    ...detail("output", output),
    ...detail("error", error?.message),
    ...(error === undefined ? detail("undoing", undoing?.message) : []),
    ...run.events.flatMap(({ type, count }) =>
      detail("event", `${type}, not yet taken by a step${count === 1 ? "" : ` (${count})`}`),
    ),
    ...run.steps.flatMap(stepLines),
  ];
}

function stepLines(step: RecordedStep): ReadonlyArray<string> {
  const { position, lane, kind, name, call, eventType, result, resultChars, error, undo } = step;
  const beside = "  ".repeat(lane);
  const nth = call === 1 ? "" : ` (call ${call})`;
  const awaited = eventType === undefined ? "" : ` for ${eventType}`;
  const more = resultChars === undefined ? "" : "…";
  return [
    `${String(position).padStart(4)}  ${beside}${kind} ${name}${nth}${awaited}  ${effortText(step)}`,
    ...(result === undefined ? [] : [`      ${beside}= ${result}${more}`]),
    ...(error === undefined ? [] : [`      ${beside}! ${error.message}`]),
    ...(undo === undefined ? [] : [`      ${beside}undo ${effortText(undo)}`]),
    ...(undo?.error === undefined ? [] : [`      ${beside}! ${undo.error.message}`]),
  ].map(oneLine);
}

/** `done, 2 attempts, 12 ms, turns 5 to 7`. */
function effortText({
  state,
  attempts,
  until,
  began,
  ended,
}: Pick<RecordedStep, "state" | "attempts" | "until" | "began" | "ended">): string {
  const took = began && ended ? [`${Date.parse(ended.time) - Date.parse(began.time)} ms`] : [];
  const turns = began === undefined ? [] : [ended === undefined || ended.seq === began.seq ? `turn ${began.seq}` : `turns ${began.seq} to ${ended.seq}`]; // prettier-ignore
  return [
    state,
    ...(until === undefined ? [] : [`until ${until}`]),
    ...(attempts > 1 ? [`${attempts} attempts`] : []),
    ...took,
    ...turns,
  ].join(", ");
}
