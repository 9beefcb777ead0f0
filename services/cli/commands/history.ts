/**
 * `agents history <class> <name>`: prints an agent's turns with their causes, from its journal
 * alone (`core/journal/historyLines`).
 */
import { Option, type Command } from "commander";
import { readFromBase } from "../../../core/journal/Beginnings.ts";
import { historyLines, type HistoryLine } from "../../../core/journal/historyLines.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { decodeEvent } from "../../../schemas/JournalEvent.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import { findAgent } from "../agents/findAgent.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import {
  addTargetOptions,
  CLASS_HELP,
  NAME_HELP,
  withPorts,
  type GivenTarget,
} from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export interface HistoryOptions {
  readonly className: string;
  readonly name: string;
  readonly json: boolean;
  /** Print only this many lines, the last ones. */
  readonly limit: number | undefined;
  /** Print only events from this sequence on. */
  readonly fromSeq: number | undefined;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly limit?: number;
  readonly from?: number;
}

export function addHistory(program: Command, context: CommandContext): void {
  const { terminal } = context;
  addTargetOptions(program.command("history").summary("what happened to an agent, turn by turn"))
    .description("Shows an agent's journal: what came in, what changed, who did it.")
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .addOption(
      new Option("--limit <count>", "only the last so many turns").argParser((text: string) =>
        option.readWhole(text, 1, Number.MAX_SAFE_INTEGER),
      ),
    )
    .addOption(
      new Option("--from <seq>", "only from this journal sequence on").argParser((text: string) =>
        option.readWhole(text, 0, Number.MAX_SAFE_INTEGER),
      ),
    )
    .addHelpText(
      "after",
      `
--json prints one object a line, oldest first:
  {seq, time, cause, state?, sql?, schedules?, queue?, done?, host, epoch}
cause has kind, id, provider, type, headers and body of what came in; state is the state after
the turn, where the turn changed it.

Examples:
  agents history repo-agent octocat~hello-world
  agents history RepoAgent octocat~hello-world --limit 20
  agents history RepoAgent octocat~hello-world --json | jq 'select(.cause.type == "push")'`,
    )
    .action((className: string, name: string, given: Given) =>
      withPorts(context, given, (ports) =>
        history(ports, terminal, {
          className,
          name,
          json: given.json === true,
          limit: given.limit,
          fromSeq: given.from,
        }),
      ),
    );
}

/** Prints turns, the oldest first. Throws `CliError` where there is no such agent. */
export async function history(
  ports: ReadPorts,
  terminal: Terminal,
  options: HistoryOptions,
): Promise<void> {
  const id = await findAgent(ports.journal, options.className, options.name);
  const print = (line: HistoryLine): void =>
    terminal.out(options.json ? JSON.stringify(line) : describeLine(line));
  const kept: HistoryLine[] = [];
  let state: string | undefined;
  // Always read from the first event: states are stored as changes of the previous one.
  for await (const read of readFromBase(id, ports)) {
    if (read._tag === "Base") {
      const { head } = read.base;
      state = "state" in head ? JSON.stringify(head.state) : undefined;
      terminal.err(trimmedNote(head.seq, head.time));
      continue;
    }
    const { seq, data } = read.event;
    const told = historyLines(seq, decodeEvent(data).head, state);
    state = told.state;
    if (seq < (options.fromSeq ?? 0)) continue;
    for (const line of told.lines) {
      if (options.limit === undefined) print(line);
      else if (kept.push(line) > options.limit) kept.shift();
    }
  }
  for (const line of kept) print(line);
}

const trimmedNote = (seq: number, timeMs: number): string =>
  `The history up to event ${seq} of ${new Date(timeMs).toISOString()} was trimmed. Where it was archived, name the archive (--archive).`;

/** Characters of a state or a statement that are shown; `--json` prints all. */
const SHOWN_MAX = 200;

/** A turn with its details, for people. `agents tail` also uses it. */
export function describeLine(line: HistoryLine): string {
  const { cause } = line;
  const what = [cause.kind, cause.provider, cause.type].filter((part) => part !== undefined);
  const attempt = cause.attempt === undefined ? "" : `, attempt ${cause.attempt}`;
  const detail = (name: string, value: unknown): string[] =>
    value === undefined ? [] : [`    ${name.padEnd(10)}${short(value)}`];
  return [
    `${line.seq}  ${line.time}  ${oneLine(what.join(" "))}${attempt}  (${line.host}, epoch ${line.epoch})`,
    ...detail("input", cause.id),
    ...detail("state", line.state),
    ...(line.sql ?? []).flatMap((statement) =>
      detail("sql", statement.replace(/\s+/g, " ").trim()),
    ),
    ...detail("schedules", line.schedules),
    ...detail("queue", line.queue),
    ...detail("error", line.error),
    ...(line.begun ? ["    not done: the turn went on after this commit"] : []),
    ...(line.dead ? ["    dead: attempts exhausted; the input lies in the dead letters"] : []),
  ].join("\n");
}

function short(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return oneLine(
    text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}… (--json shows all)` : text,
  );
}
