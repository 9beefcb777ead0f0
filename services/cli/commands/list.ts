/**
 * `agents list [class]`: prints the agents that exist, the length of their journals, and the hosts
 * that run them. The list is streamed, because an installation may have a million agents.
 */
import type { Command } from "commander";
import type { JournalEntry, StoredEvent } from "../../../core/journal/Journal.ts";
import { keyOfShard, SHARD_KEYS } from "../../../core/lease/leaseKeys.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { counted } from "../../../schemas/counted.ts";
import { shardOf } from "../../../schemas/Address.ts";
import { ifReadable } from "../../../schemas/Frame.ts";
import { decodeEvent } from "../../../schemas/JournalEvent.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { existingClass } from "../agents/findAgent.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { addTargetOptions, withoutSql, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { listQuarantined } from "../agents/listQuarantined.ts";

/** Agents whose last events are requested at once: enough to hide the broker's round trip. */
const LOOKUPS_MAX = 256;

/** One line of `--json`. `owner` is the host that owns the agent's shard now. */
export interface ListedAgent {
  readonly class: string;
  readonly name: string;
  readonly events: number;
  readonly lastSeq: number;
  /** ISO 8601: when the last event was written. */
  readonly time: string;
  readonly owner?: string;
}

interface ListOptions {
  readonly className: string | undefined;
  readonly json?: boolean | undefined;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly quarantined?: boolean;
}

export function addList(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("list"), "[class]")
    .description(
      "Lists the agents that exist, with their number of events, the time of the last one, and the host that runs them.",
    )
    .option(
      "--quarantined",
      "only quarantined agents, with the reason and when the quarantine ends",
    )
    .addHelpText(
      "after",
      `
--json prints one object a line: {class, name, events, lastSeq, time, owner?}; with --quarantined
{class, name, kind, reason, since, until, times, host}

Examples:
  agents list
  agents list repo-agent --json | jq -r .name
  agents list --quarantined`,
    )
    .action((className: string | undefined, given: Given) =>
      withoutSql(context, given, (ports) => {
        const options = { className, json: given.json };
        return given.quarantined === true
          ? listQuarantined(ports, terminal, joins.time, options)
          : list(ports, terminal, options);
      }),
    );
}

/**
 * Prints the agents of one class, or of all if `className` is undefined. Throws `CliError` if there
 * are none and another class has a similar name.
 */
async function list(
  ports: ReadPorts,
  terminal: Terminal,
  { className, json }: ListOptions,
): Promise<void> {
  const stored =
    className === undefined ? undefined : await existingClass(ports.journal, className);
  let count = 0;
  for await (const agent of listed(ports, ports.journal.list(stored))) {
    terminal.out(json ? JSON.stringify(agent) : line(agent));
    count++;
  }
  if (json) return;
  const what =
    className === undefined ? "agents" : `agents of class ${count === 0 ? className : stored}`;
  terminal.err(count === 0 ? `No ${what} yet.` : counted(count, "agent"));
}

/** Yields the line of each entry, in order, without journals that were removed meanwhile. */
export async function* listed(
  ports: ReadPorts,
  entries: AsyncIterable<JournalEntry> | Iterable<JournalEntry>,
): AsyncGenerator<ListedAgent> {
  const leases = await ports.leases.list(SHARD_KEYS);
  const owners = new Map(leases.map(({ key, value }) => [key, value]));
  for await (const some of inGroups(entries, LOOKUPS_MAX)) {
    const lasts = await ports.journal.lastOfEach(some.map(({ id }) => id));
    for (const [n, { id, events }] of some.entries()) {
      const last = lasts[n];
      if (last === undefined) continue;
      const owner = owners.get(keyOfShard(shardOf(id, ports.shards)));
      yield {
        class: id.class,
        name: id.name,
        events,
        lastSeq: last.seq,
        time: new Date(timeOf(last)).toISOString(),
        ...(owner !== undefined && { owner }),
      };
    }
  }
}

async function* inGroups<A>(
  all: AsyncIterable<A> | Iterable<A>,
  size: number,
): AsyncGenerator<readonly A[]> {
  let group: A[] = [];
  for await (const one of all) {
    if (group.push(one) < size) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}

/** The time of the event; of a damaged one, the time when the broker stored it. */
const timeOf = ({ data, storedMs }: StoredEvent): number =>
  ifReadable(() => decodeEvent(data))?.head.time ?? storedMs;

function line(agent: ListedAgent): string {
  const events = counted(agent.events, "event");
  const owner = agent.owner === undefined ? "no host" : agent.owner;
  return `${agent.class} ${oneLine(agent.name)}\n    ${events}, last ${agent.lastSeq} at ${agent.time}, ${owner}`;
}
