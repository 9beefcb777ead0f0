/**
 * `agents history <class> <name>`: prints an agent's turns with their causes, from its journal
 * alone (`core/journal/historyLines`).
 */
import { Option, type Command } from "commander";
import { differenceLine, type Difference } from "../../../core/history/agentDifferences.ts";
import { readFromBase } from "../../../core/journal/Beginnings.ts";
import { decodeStored } from "../../../core/journal/decodeStored.ts";
import { eventRows } from "../../../core/history/eventRows.ts";
import { type HistoryFilter } from "../../../core/history/historyFilter.ts";
import type { HistoryLine, Omitted } from "../../../core/journal/historyLines.ts";
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { startOfLast } from "../../../core/history/lastTurns.ts";
import { TurnLines } from "../../../core/history/TurnLines.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { AgentId } from "../../../schemas/Address.ts";
import { Cause } from "../../../schemas/JournalEvent.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { findAgent } from "../agents/findAgent.ts";
import { followTurns } from "../agents/followTurns.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { since, timeOption } from "../options/pointOptions.ts";
import {
  addTargetOptions,
  withoutSql,
  withPorts,
  type GivenTarget,
} from "../options/targetOptions.ts";
import { usage } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export interface TurnLine extends HistoryLine {
  /** Rows that the event changed, if they were asked for; in the line of the event's last turn. */
  readonly rows?: ReadonlyArray<Difference>;
}

interface HistoryOptions {
  readonly className: string;
  readonly name: string;
  readonly json?: boolean | undefined;
  /** Print only this many lines, the last ones. */
  readonly limit?: number | undefined;
  /** With `limit`: also print the other turns of an event that it would split. */
  readonly wholeEvents?: boolean;
  /** Print only events from this sequence on. */
  readonly fromSeq?: number | undefined;
  /** Print only events up to this sequence. */
  readonly toSeq?: number | undefined;
  readonly filter?: HistoryFilter;
  /** Print also the rows that each event changed, with their values. */
  readonly rows?: boolean;
  /** What the lines leave out (`WantedLines`). */
  readonly omit?: ReadonlyArray<Omitted>;
  /** Continue with new turns until a signal. */
  readonly follow?: { readonly time: Pick<TimeShape, "monotonicMs"> } | undefined;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly limit?: number;
  readonly from?: number;
  readonly kind?: string;
  readonly route?: string;
  readonly delivery?: string;
  readonly failed?: boolean;
  readonly since?: number;
  readonly until?: number;
  readonly grep?: string;
  readonly rows?: boolean;
  readonly follow?: boolean;
}

/** Values of `--kind`. */
const KINDS = [...Cause.fields.kind.literals, "claimed", "destroyed"];

export function addHistory(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("history"), "<class>", "<name>")
    .description("Shows an agent's journal: each turn's input, its changes and its host.")
    .addOption(new Option("--kind <kind>", "only turns with this kind of cause").choices(KINDS))
    .addOption(new Option("--route <path>", "only webhooks of this route: /webhooks/github"))
    .addOption(new Option("--delivery <id>", "only turns caused by this delivery"))
    .addOption(
      new Option("--failed", "only turns that failed, or whose input became a dead letter"),
    )
    .addOption(since(joins.time))
    .addOption(timeOption("--until <time>", "only until then", joins.time))
    .addOption(
      new Option("--grep <text>", "only turns with this text in input, state, SQL or error"),
    ) // prettier-ignore
    .addOption(option.count("--limit <count>", "only the last <count> turns"))
    .addOption(option.count("--from <seq>", "only from this journal sequence on", 0))
    .addOption(new Option("--rows", "also show the rows that each turn changed, with values"))
    .addOption(new Option("--follow", "keep printing new turns, until Ctrl-C"))
    .addHelpText(
      "after",
      `
--json prints one object a line, oldest first:
  {seq, time, cause, state?, sql?, rows?, schedules?, queue?, done?, begun?, dead?, error?, steps?,
  again?, undone?, restored?, destroyed?, host, epoch}
cause has kind, id, provider, type, headers and body of the input; state is the state after the
turn, if the turn changed it; rows is [{path, before?, after?}] with --rows.

Examples:
  agents history repo-agent octocat~hello-world
  agents history RepoAgent octocat~hello-world --failed --since 2h
  agents history RepoAgent octocat~hello-world --route /webhooks/github --grep "pull request" --rows
  agents history RepoAgent octocat~hello-world --json | jq 'select(.cause.type == "push")'`,
    )
    .action((className: string, name: string, given: Given) => {
      const filter = filterOf(given);
      return (given.rows === true ? withPorts : withoutSql)(context, given, (ports) =>
        history(ports, terminal, {
          className,
          name,
          json: given.json,
          limit: given.limit,
          fromSeq: given.from,
          filter,
          rows: given.rows === true,
          follow: given.follow === true ? { time: joins.time } : undefined,
        }),
      );
    });
}

/** Throws `CliError`. */
function filterOf({ since: sinceMs, until: untilMs, follow, ...given }: Given): HistoryFilter {
  if (untilMs !== undefined && follow === true)
    throw usage("--until and --follow can't be combined: new turns come after every past time."); // prettier-ignore
  const { kind, route, delivery, failed, grep } = given;
  return { kind, route, delivery, failed, text: grep, sinceMs, untilMs };
}

/** Prints turns, oldest first. `follow`: until a signal. Throws `CliError` for an unknown agent. */
export async function history(
  ports: ReadPorts,
  terminal: Terminal,
  options: HistoryOptions,
): Promise<void> {
  const id = await findAgent(ports.journal, options.className, options.name);
  const print = (line: TurnLine): void =>
    terminal.out(options.json ? JSON.stringify(line) : describeLine(line));
  const turns = new TurnLines(options, (seq) => stateAt(ports, id, seq));
  const past = async (): Promise<void> => {
    const kept: HistoryLine[] = [];
    // Lines are kept if only the last ones are wanted, or their rows are looked up together.
    const keeps = options.limit !== undefined || options.rows === true;
    const fromSeq = await startOf(id, ports, options);
    turns.begin(fromSeq);
    for await (const read of readFromBase(id, ports, { fromSeq, toSeq: options.toSeq })) {
      if (read._tag === "Base") {
        turns.restart(read.base.head);
        terminal.err(trimmedNote(read.base.head.seq, read.base.head.time));
        continue;
      }
      for (const line of await turns.of(read.event.seq, read.decode().head))
        if (keeps) kept.push(line);
        else print(line);
      kept.splice(0, excess(kept, options));
    }
    for (const line of options.rows === true ? await withRows(ports, id, kept) : kept) print(line);
  };
  if (options.follow === undefined) return past();
  await followTurns(ports, terminal, options.follow.time, {
    filter: { className: id.class, name: id.name },
    past,
    next: async (_id, stored) => {
      const { seq } = stored;
      if (seq <= turns.seq) return false;
      const lines = await turns.of(seq, decodeStored(stored).head);
      for (const line of options.rows === true ? await withRows(ports, id, lines) : lines)
        print(line);
      return false;
    },
  });
}

/** The JSON text of the state; undefined: unset. Rejects as `rebuildAgent`. */
async function stateAt(ports: ReadPorts, id: AgentId, atSeq: number): Promise<string | undefined> {
  const { image, database } = await rebuildAgent(id, { ...ports, atSeq });
  database.close();
  return image.state;
}

/** The number of lines at the beginning that exceed the limit. */
function excess(
  lines: ReadonlyArray<HistoryLine>,
  { limit = Infinity, wholeEvents = false }: Pick<HistoryOptions, "limit" | "wholeEvents">,
): number {
  let count = Math.max(0, lines.length - limit);
  if (wholeEvents) while (count > 0 && lines[count - 1]!.seq === lines[count]!.seq) count--;
  return count;
}

/**
 * The first event to read. With `limit`, turns before the last ones are not read, unless the filter
 * needs all: the route, the delivery and the input of a continuing turn are in its first event.
 */
async function startOf(
  id: AgentId,
  { journal }: Pick<ReadPorts, "journal">,
  { fromSeq: given = 1, toSeq, limit, filter = {} }: HistoryOptions,
): Promise<number> {
  const fromSeq = Math.max(1, given);
  const { text, route, delivery } = filter;
  if ([text, route, delivery].some((wanted) => wanted !== undefined)) return 1;
  if (limit === undefined) return fromSeq;
  const last = (await journal.last(id))?.seq ?? 0;
  return startOfLast(id, journal, { limit, fromSeq, toSeq: Math.min(last, toSeq ?? last), filter });
}

/** Adds the rows that each event changed to the event's last line. */
async function withRows(
  ports: ReadPorts,
  id: AgentId,
  lines: ReadonlyArray<HistoryLine>,
): Promise<ReadonlyArray<TurnLine>> {
  const seqs = [...new Set(lines.map(({ seq }) => seq))];
  const changed = new Map<number, TurnLine["rows"]>();
  for await (const { seq, rows } of eventRows(id, seqs, ports)) changed.set(seq, rows);
  return lines.map((line, n) => {
    const rows = lines[n + 1]?.seq === line.seq ? undefined : changed.get(line.seq);
    return rows === undefined ? line : { ...line, rows };
  });
}

const trimmedNote = (seq: number, timeMs: number): string =>
  `The history up to event ${seq} of ${new Date(timeMs).toISOString()} was trimmed. If it was archived, specify the archive (--archive).`;

/** Characters of a state or a statement that are shown; `--json` prints all. */
const SHOWN_MAX = 200;

/** A turn with its details, for people. `agents tail` also uses it. */
export function describeLine(line: TurnLine): string {
  const { cause } = line;
  const what = [cause.kind, cause.provider, cause.type].filter((part) => part !== undefined);
  const attempt = cause.attempt === undefined ? "" : `, attempt ${cause.attempt}`;
  const detail = (name: string, value: unknown): string[] =>
    value === undefined ? [] : [`    ${name.padEnd(10)}${short(value)}`];
  return [
    `${line.seq}  ${line.time}  ${oneLine(what.join(" "))}${attempt}  (${line.host}, epoch ${line.epoch})`,
    ...detail("input", cause.id),
    ...detail("delivery", cause.delivery),
    ...detail("state", line.state),
    ...(line.sql ?? []).flatMap((statement) =>
      detail("sql", statement.replace(/\s+/g, " ").trim()),
    ),
    ...(line.rows ?? []).flatMap((row) => detail("row", differenceLine(row))),
    ...detail("schedules", line.schedules),
    ...detail("queue", line.queue),
    ...(line.steps ?? []).flatMap(({ key, result }) =>
      detail("step", `${key} → ${JSON.stringify(result)}`),
    ),
    ...detail("error", line.error),
    ...(line.again ?? []).flatMap(({ key, error }) =>
      detail("again", `${key}: ${error ?? "its answer was no success"}`),
    ),
    ...(line.undone ? ["    undone: what was stored of this turn before its host ended"] : []),
    ...(line.restored ? [restoredNote(line.restored)] : []),
    ...(line.destroyed ? ["    destroyed: state, SQL, schedules and queue were removed"] : []),
    ...(line.begun ? [notFinished(line)] : []),
    ...(line.dead ? ["    dead: attempts exhausted; the input is a dead letter"] : []),
  ].join("\n");
}

const notFinished = ({ error }: HistoryLine): string =>
  error === undefined
    ? "    not finished: the turn continued after this commit"
    : "    not finished: this attempt failed, and another one follows";

/** `seq` is absent in a journal into which the event was copied. */
const restoredNote = ({ seq, time }: NonNullable<HistoryLine["restored"]>): string =>
  `    put back to ${seq === undefined ? "what it was" : `event ${seq}`} of ${new Date(time).toISOString()}`;

function short(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return oneLine(
    text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}… (--json shows all)` : text,
  );
}
