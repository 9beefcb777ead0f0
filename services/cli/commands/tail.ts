/**
 * `agents tail [class] [name]`: prints turns as they are committed, until Ctrl-C. It follows the
 * journal, so that every printed turn is stored, and the output is complete and in order.
 *
 * An event stores its state as a change of the previous one, so that the last state of each agent
 * is kept. For an agent that was not seen from its start, it is rebuilt from the journal.
 */
import type { Command } from "commander";
import type { StoredEvent } from "../../../core/journal/Journal.ts";
import type { FeedFilter } from "../../../core/journal/JournalFeed.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { address, existingClass } from "../agents/findAgent.ts";
import { followTurns } from "../agents/followTurns.ts";
import { States } from "../agents/States.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withoutSql, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { describeLine } from "./history.ts";

interface TailOptions {
  readonly className: string | undefined;
  readonly name: string | undefined;
  readonly json?: boolean | undefined;
  /** Stop after this many lines. Undefined: only at a signal. */
  readonly limit?: number | undefined;
  readonly time: Pick<TimeShape, "monotonicMs">;
}

type Given = GivenTarget & Partial<TailOptions>;

export function addTail(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("tail"), "[class]", "[name]")
    .description(
      "Prints each turn of one agent, of a class or of all agents as it is committed, until Ctrl-C. For earlier turns, use agents history.",
    )
    .addOption(option.count("--limit <count>", "stop after this many turns"))
    .addHelpText(
      "after",
      `
--json prints one object a line: {class, name, …} and the fields of agents history.

Examples:
  agents tail
  agents tail repo-agent octocat~hello-world
  agents tail --json | jq 'select(.error)'`,
    )
    .action((className: string | undefined, name: string | undefined, given: Given) =>
      withoutSql(context, given, (ports) =>
        tail(ports, terminal, { ...given, className, name, time: joins.time }),
      ),
    );
}

/** Resolves at a signal or after `limit` lines. Rejects if the feed fails. */
async function tail(ports: ReadPorts, terminal: Terminal, options: TailOptions): Promise<void> {
  const filter = await filterOf(ports, options);
  const states = new States(ports);
  let left = options.limit ?? Infinity;
  const next = async (id: AgentId, event: StoredEvent): Promise<boolean> => {
    for (const line of await states.tell(id, event)) {
      if (left <= 0) break;
      // Parts of continuing turns are not listed.
      if (line.begun !== true) left--;
      const { class: className, name } = id;
      if (options.json) terminal.out(JSON.stringify({ class: className, name, ...line }));
      else terminal.out(`${className} ${oneLine(name)}  ${describeLine(line)}`);
    }
    return left <= 0;
  };
  await followTurns(ports, terminal, options.time, { filter, next });
}

async function filterOf(
  { journal }: ReadPorts,
  { className, name }: TailOptions,
): Promise<FeedFilter> {
  if (className === undefined) return {};
  const stored = await existingClass(journal, className);
  if (name === undefined) return { className: stored };
  return { className: stored, name: address(stored, name).name };
}
