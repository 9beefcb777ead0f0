/**
 * `agents release <class> <name>`: ends the quarantine of an agent, which then runs its waiting
 * inputs. The owner of its shard does that; if no host runs, this command changes the mark.
 */
import type { Command } from "commander";
import { AgentUnreachable } from "../../../core/call/CallClient.ts";
import { releasedMark } from "../../../core/quarantine/quarantineRule.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import { findAgent } from "../agents/findAgent.ts";
import { isOfClass, quarantineLine } from "../agents/listQuarantined.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** Longer than a host takes to die and another to take over. */
const ANSWER_TIMEOUT_MS = 30_000;

export interface ReleaseOptions {
  readonly className: string;
  readonly name: string;
  readonly json?: boolean | undefined;
}

export function addRelease(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("release"), "<class>", "<name>")
    .description(
      "Ends the quarantine of an agent whose turns repeatedly ended their process, or whose journal could not be read. Its waiting inputs run at once, so fix the cause first. A new version of the module also ends the quarantine.",
    )
    .addHelpText(
      "after",
      `
--json prints {class, name, reason, since, until}

Examples:
  agents list --quarantined
  agents release repo-agent octocat~hello-world`,
    )
    .action((className: string, name: string, given: GivenTarget) =>
      withPorts(context, given, (ports) =>
        release(ports, terminal, joins.time, { ...given, className, name }),
      ),
    );
}

/**
 * Throws `CliError` for an agent that does not exist or is not quarantined, and if no host answers.
 */
export async function release(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  { className, name, json }: ReleaseOptions,
): Promise<void> {
  const marked = (await ports.quarantines.list()).find(
    ({ id, mark }) => id.name === name && isOfClass(id, className) && mark.untilMs > time.nowMs(),
  );
  if (marked === undefined) throw notQuarantined(await findAgent(ports.journal, className, name));
  const { id } = marked;
  const hosts = await ports.leases.list("host.");
  if (hosts.length > 0) await askOwner(ports, id);
  else await ports.quarantines.put(id, releasedMark(marked.mark, time.nowMs()));
  if (json) terminal.out(JSON.stringify(quarantineLine(marked)));
  else
    terminal.out(
      `${addressKey(id)} is released. It was quarantined because ${marked.mark.reason}.`,
    );
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
    if (!(error instanceof AgentUnreachable)) throw error;
    throw failed(`${error.message}. It is still quarantined. Run this again.`);
  }
}

const notQuarantined = (id: AgentId) =>
  failed(
    `${addressKey(id)} is not quarantined. "agents list --quarantined" lists the agents that are.`,
  );
