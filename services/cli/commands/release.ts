/**
 * `agents release <class> <name>`: ends the quarantine of an agent, which then runs its waiting
 * inputs. The owner of its shard does that; if no host runs, this command changes the mark. With
 * `--on-fork`, the inputs run on a fork first (`agents/onFork`).
 */
import type { Command } from "commander";
import type { MarkedAgent } from "../../../core/quarantine/Quarantines.ts";
import { HOST_KEYS } from "../../../core/lease/leaseKeys.ts";
import { releasedMark } from "../../../core/quarantine/quarantineRule.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { findAgent } from "../agents/findAgent.ts";
import { notReached } from "../agents/notReached.ts";
import { isOfClass, quarantineLine } from "../agents/listQuarantined.ts";
import {
  addForkOptions,
  checkForkCount,
  isOnFork,
  onForkHelp,
  runOnForks,
  type GivenFork,
  type OnForkParts,
} from "../agents/onFork.ts";
import { waitingInputs } from "../agents/waitingInputs.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { differs, failed } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** Longer than a host takes to die and another to take over. */
const ANSWER_TIMEOUT_MS = 30_000;

interface ReleaseOptions {
  readonly className: string;
  readonly name: string;
  readonly json?: boolean | undefined;
}

/** The sentences of `onForkHelp`. */
const RELEASED = `With it, the agent is released if none of them failed. The inputs are its stored webhooks, mail and
signals, its queue items, and its schedules that are due. Code that blocks its process blocks the
command, too: --json and a terminal show which inputs ran before, and Ctrl-C ends it.`;

export function addRelease(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  const command = addTargetOptions(program.command("release"), "<class>", "<name>");
  addForkOptions(command, "release the agent if none failed")
    .description(
      "Ends the quarantine of an agent whose turns repeatedly ended their process, or whose journal could not be read. Its waiting inputs run at once, so fix the cause first, and run them on a fork. A new version of the module also ends the quarantine.",
    )
    .addHelpText(
      "after",
      `${onForkHelp(RELEASED)}

--json prints {class, name, kind, reason, since, until, times, host}; with --on-fork before it one
  object a line: {id, class, name, seq, outcome: "done"|"fails", why?, differences, sends}

Examples:
  agents list --quarantined
  agents release repo-agent octocat~hello-world --on-fork --module src/fixed.ts
  agents release repo-agent octocat~hello-world`,
    )
    .action((className: string, name: string, given: GivenTarget & GivenFork) => {
      const wanted = { ...given, className, name };
      const onFork = isOnFork(given);
      return withPorts(context, given, (ports, target) =>
        onFork
          ? releaseOnFork({ ports, target, terminal, joins }, wanted)
          : release(ports, terminal, joins.time, wanted),
      );
    });
}

/**
 * Runs what waits for the agent on a fork and, with `yes`, releases it if nothing failed. Throws
 * `CliError` as `release`, and if an input failed.
 */
async function releaseOnFork(
  parts: OnForkParts,
  options: ReleaseOptions & GivenFork,
): Promise<void> {
  const { ports, terminal, joins } = parts;
  const { module, yes, json = false } = options;
  const { id } = await findQuarantined(ports, joins.time, options);
  const inputs = await waitingInputs(ports, terminal, id, joins.time.nowMs());
  checkForkCount(inputs.length);
  const done = await runOnForks(parts, { module, json }, inputs);
  const fails = inputs.length - done.size;
  if (fails > 0)
    throw differs(
      `${fails} of ${inputs.length} failed on the fork. ${addressKey(id)} is still quarantined.`,
    );
  if (yes === true) return release(ports, terminal, joins.time, options);
  if (json) return;
  const waits = inputs.length === 0 ? "Nothing waits for it" : "On a fork only";
  terminal.err(`${waits}: ${addressKey(id)} is still quarantined. Add --yes to release it.`);
}

/** Throws `CliError` for an unknown agent, one not quarantined, and if no host answers. */
export async function release(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  options: ReleaseOptions,
): Promise<void> {
  const marked = await findQuarantined(ports, time, options);
  const { id } = marked;
  const hosts = await ports.leases.list(HOST_KEYS);
  if (hosts.length > 0) await askOwner(ports, id);
  else await ports.quarantines.put(id, releasedMark(marked.mark, time.nowMs()));
  if (options.json) terminal.out(JSON.stringify(quarantineLine(marked)));
  else
    terminal.out(
      `${addressKey(id)} is released. It was quarantined because ${oneLine(marked.mark.reason)}.`,
    );
}

/** Throws `CliError` for an agent that does not exist or is not quarantined. */
async function findQuarantined(
  { quarantines, journal }: Pick<ReadPorts, "quarantines" | "journal">,
  time: Pick<TimeShape, "nowMs">,
  { className, name }: ReleaseOptions,
): Promise<MarkedAgent> {
  const marked = (await quarantines.list()).find(
    ({ id, mark }) => id.name === name && isOfClass(id, className) && mark.untilMs > time.nowMs(),
  );
  if (marked === undefined) throw notQuarantined(await findAgent(journal, className, name));
  return marked;
}

async function askOwner({ calls }: Pick<ReadPorts, "calls">, id: AgentId): Promise<void> {
  try {
    const bounds = { deadlineMs: ANSWER_TIMEOUT_MS, repeatable: true };
    const { reply } = await calls.call(id, { kind: "release" }, bounds);
    if (reply.kind === "result" && reply.value !== null) return;
    if (reply.kind === "result") throw notQuarantined(id);
    throw failed(
      `${addressKey(id)} could not be released: ${reply.kind === "error" ? reply.message : reply.kind}. Its host's log has details.`,
    );
  } catch (error) {
    throw notReached(error, "It is still quarantined. Run this again.");
  }
}

const notQuarantined = (id: AgentId) =>
  failed(
    `${addressKey(id)} is not quarantined. "agents list --quarantined" lists the agents that are.`,
  );
