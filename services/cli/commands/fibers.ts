/**
 * `agents fibers <class> <name> [--at …]`: prints an agent's fibers, the newest first, from its
 * tables as rebuilt from the journal (`core/fiber/listFibers`).
 */
import { Option, type Command } from "commander";
import { listFibers, type FiberPage, type ListedFiber } from "../../../core/fiber/listFibers.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { counted } from "../../../schemas/counted.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { withAgentAt, type AgentAt } from "../agents/withAgentAt.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { at } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface FibersOptions extends AgentAt {
  readonly limit?: number | undefined;
  /** Newer fibers to leave out. */
  readonly skip?: number | undefined;
  readonly json?: boolean | undefined;
}

/** Some screens. */
const LIMIT_DEFAULT = 100;
/** A number that any table is shorter than. */
const SKIP_MAX = 1_000_000_000;

type Given = GivenTarget & Pick<FibersOptions, "at" | "limit" | "skip">;

export function addFibers(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("fibers"), "<class>", "<name>")
    .description(
      "Lists an agent's fibers, the newest first: those of runFiber while they run, those of startFiber until they are deleted. Reads a copy that is rebuilt from the journal, and wakes no agent.",
    )
    .addOption(at(joins.time))
    .addOption(
      option.count("--limit <count>", `maximum number of fibers (default: ${LIMIT_DEFAULT})`),
    )
    .addOption(
      new Option("--skip <count>", "number of newer fibers to skip").argParser((text: string) =>
        option.readWhole(text, 0, SKIP_MAX),
      ),
    )
    .addHelpText(
      "after",
      `
--json prints one object: {total, fibers: [{id, name, status, owed, created, started?, settled?,
idempotencyKey?, metadata?, stashed?, stashedChars?, error?, recoveries, failures, stepsDone,
steps: [{name, isUndone}], undoing?}]}
owed is true while the fiber runs or its recovery is not over. Steps are kept until then.

Examples:
  agents fibers repo-agent octocat~hello-world
  agents fibers RepoAgent octocat~hello-world --json | jq '.fibers[] | select(.owed)'`,
    )
    .action((className: string, name: string, given: Given) =>
      withPorts(context, given, (ports) => fibers(ports, terminal, { ...given, className, name })),
    );
}

/** Throws `CliError` if the agent did not exist at that point. */
export const fibers = (
  ports: ReadPorts,
  terminal: Terminal,
  { limit = LIMIT_DEFAULT, skip = 0, json, ...wanted }: FibersOptions,
): Promise<void> =>
  withAgentAt(ports, wanted, (_id, { database }) => {
    const page: FiberPage = listFibers(database, { skip, limit });
    if (json) return terminal.out(JSON.stringify(page));
    for (const fiber of page.fibers) for (const line of lines(fiber)) terminal.out(oneLine(line));
    const rest = page.total - skip - page.fibers.length;
    terminal.err(page.total === 0 ? "No fibers." : counted(page.total, "fiber")); // prettier-ignore
    if (rest > 0) terminal.err(`${rest} older ones: --skip ${skip + page.fibers.length}`);
  });

function lines(fiber: ListedFiber): ReadonlyArray<string> {
  const { id, name, status, owed, created, settled, stashed, stashedChars, steps, stepsDone } =
    fiber;
  const recovering = owed && status === "interrupted" ? ", to be recovered" : "";
  const named = steps.map((step) => (step.isUndone ? `${step.name} (undone)` : step.name));
  const detail = (title: string, text: string | undefined): string[] =>
    text === undefined ? [] : [`    ${title.padEnd(10)}${text}`];
  return [
    `${created}  ${status}${recovering}  ${name}  ${id}${settled === undefined ? "" : `, until ${settled}`}`,
    ...detail("key", fiber.idempotencyKey),
    ...detail("stashed", stashed && `${stashed}${stashedChars === undefined ? "" : "…"}`),
    ...detail("metadata", fiber.metadata),
    ...detail("steps", stepsDone === 0 ? undefined : `${stepsDone} done: ${named.join(", ")}`),
    ...detail("undoing", fiber.undoing),
    ...detail("error", fiber.error),
  ];
}
