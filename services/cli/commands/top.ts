/**
 * `agents top [class]`: the cost of each class and of the busiest agents, as rates over an
 * interval. Asks the owner of each shard twice, and prints the difference. On a terminal the table
 * is drawn again at each interval until Ctrl-C; elsewhere, and with `--json`, it is printed once.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import { agentId, shardOf, type AgentId } from "../../../schemas/Address.ts";
import type { BudgetSum, Cost, UsageReply } from "../../../core/telemetry/Usage.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { isOfClass } from "../agents/listQuarantined.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { failed } from "../terminal/CliError.ts";
import { sleep } from "../../../core/time/sleep.ts";
import { counted } from "../../../schemas/counted.ts";

/** The shards of a host that does not answer in this time are shown as away. */
const ANSWER_MS = 2_000;
const MS_PER_SECOND = 1000;
/** Long enough to even out bursts, short enough to watch. */
const INTERVAL_SECONDS_DEFAULT = 2;
/** An hour. Refuses a number meant as milliseconds. */
const INTERVAL_SECONDS_MAX = 3_600;
/** Agents that fit on a screen. */
const AGENTS_SHOWN = 20;

/** Rates per second, and totals. */
export interface Row {
  readonly class: string;
  /** Absent for a whole class. */
  readonly name?: string;
  readonly turns: number;
  /** Milliseconds spent in turns; 1000 is one turn running all the time. */
  readonly turnMs: number;
  readonly commits: number;
  readonly bytes: number;
  /** Times that it blocked its process's thread, since the host started or it was activated. */
  readonly stalls: number;
  readonly stalledSeconds: number;
  /** Inputs of an agent that are waiting. */
  readonly waiting?: number;
}

/** The object that `--json` prints. */
export interface Top {
  readonly seconds: number;
  readonly hosts: number;
  /** Shards whose owner did not answer. */
  readonly shardsAway: number;
  readonly classes: ReadonlyArray<Row>;
  readonly agents: ReadonlyArray<Row>;
  /** Since the hosts started. */
  readonly budgets: ReadonlyArray<BudgetSum>;
}

interface TopOptions {
  readonly className: string | undefined;
  readonly json?: boolean | undefined;
  /** Default: `INTERVAL_SECONDS_DEFAULT`. */
  readonly seconds?: number;
  readonly time: Pick<TimeShape, "after" | "monotonicMs">;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly interval: number;
}

export function addTop(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("top"), "[class]")
    .description(
      "Shows turns, time in turns, commits and bytes per second of each class and of the busiest agents, and how often they blocked the thread of their process.",
    )
    .addOption(
      new Option("--interval <seconds>", "interval over which rates are measured")
        .default(INTERVAL_SECONDS_DEFAULT)
        .argParser((text: string) => {
          const seconds = Number(text);
          if (seconds > 0 && seconds <= INTERVAL_SECONDS_MAX) return seconds;
          throw new InvalidArgumentError(`Use a number above 0, up to ${INTERVAL_SECONDS_MAX}.`);
        }),
    )
    .addHelpText(
      "after",
      `
Time in turns includes waiting; 1000 ms a second is one turn running all the time.
A stall is a time of 0.2 s or more in which a turn blocked the thread of its process, and so every
agent in that process. Stalls are counted since the host started, or since the agent woke. Budgets
are those of this.spend, summed over all agents of a class since the hosts started.
--json prints {seconds, hosts, shardsAway, classes: [{class, turns, turnMs, commits, bytes, stalls,
stalledSeconds}], agents: [{class, name, …, waiting}], budgets: [{class, budget, spent, refused}]}

Examples:
  agents top
  agents top repo-agent --json`,
    )
    .action((className: string | undefined, given: Given) =>
      withPorts(context, given, (ports) =>
        top(ports, terminal, {
          className,
          json: given.json,
          seconds: given.interval,
          time: joins.time,
        }),
      ),
    );
}

/** Resolves when the table is printed; on a terminal, never. */
export async function top(
  ports: Pick<ReadPorts, "calls" | "shards">,
  terminal: Terminal,
  options: TopOptions,
): Promise<void> {
  const { json, seconds = INTERVAL_SECONDS_DEFAULT, time } = options;
  const nowMs = time.monotonicMs;
  const ids = oneOfEachShard(ports.shards);
  let [before, beforeMs] = [await read(ports, ids), nowMs()];
  refuseNone(before);
  for (;;) {
    await sleep(time, seconds * MS_PER_SECOND);
    const [after, afterMs] = [await read(ports, ids), nowMs()];
    const found = compare(before, after, (afterMs - beforeMs) / MS_PER_SECOND, options);
    if (json) return terminal.out(JSON.stringify(found));
    if (terminal.interactive) terminal.clear?.();
    for (const line of lines(found)) terminal.out(line);
    if (!terminal.interactive || terminal.clear === undefined) return;
    [before, beforeMs] = [after, afterMs];
  }
}

/** One agent for each shard: calls reach a shard by an agent's name. They need not exist. */
function oneOfEachShard(shards: number): ReadonlyArray<AgentId> {
  const ids = new Map<number, AgentId>();
  for (let n = 0; ids.size < shards; n++) {
    const id = agentId("Top", String(n));
    const shard = shardOf(id, shards);
    if (!ids.has(shard)) ids.set(shard, id);
  }
  return [...ids.values()];
}

/** The answer of each shard's host, or why there is none. */
type Reading = ReadonlyArray<UsageReply | Error>;

/** Throws `CliError` where no host has answered: zeros would look like an idle installation. */
function refuseNone(reading: Reading): void {
  const [why] = reading;
  if (why instanceof Error && reading.every((reply) => reply instanceof Error))
    throw failed(`No host has answered: ${why.message}`);
}

const NO_USAGE = new Error("its host is of an older release");

const read = ({ calls }: Pick<ReadPorts, "calls">, ids: ReadonlyArray<AgentId>): Promise<Reading> =>
  Promise.all(
    ids.map(async (id) => {
      const call = { kind: "usage" } as const;
      const options = { deadlineMs: ANSWER_MS, repeatable: true, what: "A shard" };
      try {
        const { reply } = await calls.call(id, call, options);
        return reply.kind === "result" ? (reply.value as UsageReply) : NO_USAGE;
      } catch (error) {
        // No host owns the shard, or the login may not ask.
        return error instanceof Error ? error : NO_USAGE;
      }
    }),
  );

function compare(
  before: Reading,
  after: Reading,
  seconds: number,
  { className }: Pick<TopOptions, "className">,
): Top {
  const [was, is] = [sums(before), sums(after)];
  const isAskedFor = (of: { readonly class: string }): boolean =>
    className === undefined || isOfClass(of, className);
  const rows = (kind: "classes" | "agents"): Row[] =>
    [...is[kind]]
      .filter(([, cost]) => isAskedFor(cost))
      .map(([key, cost]) => rate(cost, was[kind].get(key), seconds));
  return {
    seconds,
    hosts: is.hosts.size,
    shardsAway: after.filter((reply) => reply instanceof Error).length,
    classes: busiestFirst(sumsOfHosts(rows("classes"))),
    agents: busiestFirst(rows("agents"))
      .filter(({ turns, stalls, waiting = 0 }) => turns > 0 || stalls > 0 || waiting > 0)
      .slice(0, AGENTS_SHOWN),
    budgets: [...is.budgets.values()].filter(isAskedFor),
  };
}

type Counted = Cost & { readonly class: string; readonly name?: string; readonly waiting?: number };

/** The classes of each host are in it once, although each of its shards reports them. */
function sums(reading: Reading) {
  const hosts = new Set<string>();
  const classes = new Map<string, Counted>();
  const agents = new Map<string, Counted>();
  const budgets = new Map<string, BudgetSum>();
  for (const reply of reading) {
    if (reply instanceof Error) continue;
    for (const agent of reply.agents) agents.set(`${agent.class}/${agent.name}`, agent);
    if (hosts.has(reply.host)) continue;
    hosts.add(reply.host);
    for (const cost of reply.classes) classes.set(`${reply.host} ${cost.class}`, cost);
    for (const sum of reply.budgets ?? []) {
      const key = `${sum.class} ${sum.budget}`;
      const { spent = 0, refused = 0 } = budgets.get(key) ?? {};
      budgets.set(key, { ...sum, spent: spent + sum.spent, refused: refused + sum.refused });
    }
  }
  return { hosts, classes, agents, budgets };
}

/** A value that is smaller began again at 0: an agent was activated, or a host started. */
function rate(now: Counted, before: Counted | undefined, seconds: number): Row {
  const from = before === undefined || before.turns > now.turns ? undefined : before;
  const per = (of: keyof Cost): number =>
    Math.round(((now[of] - (from?.[of] ?? 0)) / seconds) * 10) / 10;
  return {
    class: now.class,
    ...(now.name !== undefined && { name: now.name }),
    turns: per("turns"),
    turnMs: per("turnMs"),
    commits: per("commits"),
    bytes: per("bytes"),
    // A host of an older release does not count them.
    stalls: now.stalls ?? 0,
    stalledSeconds: Math.round((now.stallMs ?? 0) / 100) / 10,
    ...(now.waiting !== undefined && { waiting: now.waiting }),
  };
}

const busiestFirst = (rows: ReadonlyArray<Row>): Row[] =>
  rows.toSorted((a, b) => b.turnMs - a.turnMs);

/** One row for each class, from those of its hosts: each may have restarted by itself. */
function sumsOfHosts(rows: ReadonlyArray<Row>): Row[] {
  const sum = (a: number, b: number): number => Math.round((a + b) * 10) / 10;
  const classes = new Map<string, Row>();
  for (const row of rows) {
    const before = classes.get(row.class);
    if (before === undefined) classes.set(row.class, row);
    else
      classes.set(row.class, {
        class: row.class,
        turns: sum(before.turns, row.turns),
        turnMs: sum(before.turnMs, row.turnMs),
        commits: sum(before.commits, row.commits),
        bytes: sum(before.bytes, row.bytes),
        stalls: before.stalls + row.stalls,
        stalledSeconds: sum(before.stalledSeconds, row.stalledSeconds),
      });
  }
  return [...classes.values()];
}

const NUMBERS = ["turns/s", "ms/s", "commits/s", "bytes/s", "stalls", "stalled s", "waiting"] as const; // prettier-ignore
/** Wide enough for a hundred MiB a second in bytes. */
const NUMBER_WIDTH = 11;

function lines(found: Top): ReadonlyArray<string> {
  const { hosts, shardsAway, seconds, classes, agents, budgets } = found;
  const away = shardsAway === 0 ? "" : `, ${counted(shardsAway, "shard")} did not answer`;
  const head = inColumns(NUMBERS);
  const line = (row: Row): string =>
    inColumns([
      row.turns,
      row.turnMs,
      row.commits,
      row.bytes,
      row.stalls,
      row.stalledSeconds,
      row.waiting ?? "",
    ]) + `  ${oneLine(row.name === undefined ? row.class : `${row.class}/${row.name}`)}`;
  return [
    `${counted(hosts, "host")}${away}, over ${Math.round(seconds * 10) / 10} s`,
    `${head}  class`,
    ...classes.map(line),
    `${head}  agent`,
    ...agents.map(line),
    ...(budgets.length === 0 ? [] : [`${inColumns(["spent", "refused"])}  budget`]),
    ...budgets.map(
      (sum) => `${inColumns([sum.spent, sum.refused])}  ${oneLine(`${sum.class} ${sum.budget}`)}`,
    ),
  ];
}

const inColumns = (values: ReadonlyArray<string | number>): string =>
  values.map((value) => String(value).padStart(NUMBER_WIDTH)).join("");
