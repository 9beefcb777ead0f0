/**
 * `agents diff <class> <name> --from … [--to …]`: prints how an agent differs between two points of
 * its history: state, tables and rows. Both are rebuilt from the journal.
 */
import type { Command } from "commander";
import {
  differenceLine,
  readTables,
  stateDifferences,
  tableDifferences,
  type Difference,
  type Tables,
} from "../../../core/history/agentDifferences.ts";
import { advanceAgent, type Rebuilt } from "../../../core/journal/rebuildAgent.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { counted } from "../../../schemas/counted.ts";
import type { AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { withAgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { pointOption, type Point } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface DiffOptions {
  readonly className: string;
  readonly name: string;
  readonly from: Point;
  /** Undefined: now. */
  readonly to: Point | undefined;
  readonly json?: boolean | undefined;
}

/** The object of `--json`. */
export interface AgentDiff {
  readonly class: string;
  readonly name: string;
  readonly from: Moment;
  readonly to: Moment;
  readonly state: ReadonlyArray<Difference>;
  readonly rows: ReadonlyArray<Difference>;
}

/** Time as ISO 8601. */
interface Moment {
  /** 0 before the first event; there is then no time. */
  readonly seq: number;
  readonly time?: string;
}

/** The most rows of one table to compare, about 100 MB. Past it only their number is. */
const ROWS_MAX = 100_000;

/**
 * Sequences between two points up to which the second is replayed from the first. Of a distant one
 * there may be a snapshot.
 */
const NEAR = 1_000;

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly from: Point;
  readonly to?: Point;
}

export function addDiff(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("diff"), "<class>", "<name>")
    .description(
      "Shows which fields of an agent's state and which rows of its tables differ between two points of its history. Does not touch the running agent.",
    )
    .addOption(
      pointOption(
        "--from <point>",
        "a journal sequence or time: 42, 2026-03-01T09:30:00Z, or 2h for two hours ago",
        joins.time,
      ).makeOptionMandatory(),
    )
    .addOption(
      pointOption("--to <point>", "the other point, in the same forms (default: now)", joins.time),
    )
    .addHelpText(
      "after",
      `
A point is the agent's last event up to there; before its first event the agent is empty. Rows are
identified by primary key or rowid. Only the number of rows is compared if a table has more than
${ROWS_MAX.toLocaleString("en")} rows.

--json prints {class, name, from: {seq, time?}, to: {seq, time}, state: [{path, before?, after?}],
rows: [{path, before?, after?}]}; before is absent if it was added, after if it was removed.

Examples:
  agents diff RepoAgent octocat~hello-world --from 41 --to 42
  agents diff repo-agent octocat~hello-world --from 2h`,
    )
    .action((className: string, name: string, given: Given) =>
      withPorts(context, given, (ports) => {
        const { from, to, json } = given;
        return diff(ports, terminal, { className, name, from, to, json });
      }),
    );
}

/** Throws `CliError` if the agent does not exist, or its history was trimmed at a point. */
export async function diff(
  ports: ReadPorts,
  terminal: Terminal,
  { className, name, from, to, json }: DiffOptions,
): Promise<void> {
  const agentOf = { className, name, orNone: true };
  const [was, next] = await withAgentAt(ports, { ...agentOf, at: from }, async (id, agent) => {
    const first = read(id, agent);
    const isNear = to?.atSeq !== undefined && to.atSeq >= agent.seq && to.atSeq - agent.seq <= NEAR;
    const later = isNear ? await advanceAgent(agent, ports, to.atSeq) : undefined;
    return [first, later && read(id, later)] as const;
  });
  const is = next ?? (await withAgentAt(ports, { ...agentOf, at: to }, read));
  const state = [...stateDifferences(was.state, is.state)];
  const rows = [...tableDifferences(was.tables, is.tables)];
  if (json) {
    const found: AgentDiff = { class: was.class, name, from: was.moment, to: is.moment, state, rows }; // prettier-ignore
    terminal.out(JSON.stringify(found));
    return;
  }
  for (const one of [...state, ...rows]) terminal.out(oneLine(differenceLine(one)));
  const moment = ({ seq, time }: Moment): string =>
    seq === 0 ? "before its first event" : `event ${seq}, ${time}`;
  const many = state.length + rows.length;
  terminal.err(
    `${many === 0 ? "no difference" : counted(many, "difference")} from ${moment(was.moment)}, to ${moment(is.moment)}`,
  );
}

const read = (id: AgentId, agent: Rebuilt): Read => ({
  class: id.class,
  moment: { seq: agent.seq, ...(agent.seq > 0 && { time: new Date(agent.time).toISOString() }) },
  state: agent.state,
  tables: readTables(agent.database, ROWS_MAX),
});

interface Read {
  readonly class: string;
  readonly moment: Moment;
  readonly state: unknown;
  readonly tables: Tables;
}
