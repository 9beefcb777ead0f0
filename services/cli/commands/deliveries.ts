/**
 * `agents deliveries`: the requests to webhook routes and their outcomes, from the delivery log;
 * `agents deliveries show <id>`: everything known about one, with its bytes from the journal.
 */
import { Option, type Command } from "commander";
import {
  arrivalOf,
  findDelivery,
  lastDeliveries,
  matches,
  type DeliveryFilter,
} from "../../../core/delivery/deliveryHistory.ts";
import { findInput } from "../../../core/delivery/findInput.ts";
import { duration } from "../../../core/telemetry/RequestLog.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { DeliveryRecord } from "../../../schemas/DeliveryRecord.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { existingClass } from "../agents/findAgent.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import {
  agentOption,
  routeOption,
  statusOption,
  type GivenFilter,
} from "../options/deliveryOptions.ts";
import { since } from "../options/pointOptions.ts";
import { addTargetOptions, withoutSql, type GivenTarget } from "../options/targetOptions.ts";
import { notFound } from "../terminal/CliError.ts";
import { stopSignals } from "../terminal/stopSignals.ts";
import { printInput } from "../terminal/printInput.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** Fits on one or two screens. */
const LIMIT_DEFAULT = 50;

interface Given extends GivenTarget, GivenFilter {
  readonly follow?: boolean;
  readonly limit?: number;
}

export function addDeliveries(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  const command = addTargetOptions(program.command("deliveries"))
    .description(
      "Shows the delivery log: each request to a webhook route, with its status (refused, stored, answered, duplicate, failed, dead …). The log keeps 14 days, and at most 512 MiB.",
    )
    .addOption(routeOption())
    .addOption(statusOption())
    .addOption(agentOption())
    .addOption(since(joins.time))
    .addOption(new Option("--follow", "keep printing new deliveries, until Ctrl-C"))
    .addOption(
      new Option(
        "--limit <count>",
        `only the last <count> deliveries (default: ${LIMIT_DEFAULT})`,
      ).argParser((text: string) => option.readWhole(text, 1, 1_000_000)),
    )
    .addHelpText(
      "after",
      `
--json prints one object a line, oldest first:
  {id, status, time, route, provider, method, from, bytes, http, ms, agent?, key?, type?, seq?,
   duplicateOf?, attempt?, error?, why?, of?, more?}

Examples:
  agents deliveries
  agents deliveries --route /webhooks/github --status refused --since 2h
  agents deliveries --agent RepoAgent/acme~site --follow
  agents deliveries show mwvbsxl7-70lqa00`,
    )
    .action((given: Given) =>
      withoutSql(context, given, async (ports) => {
        const filter = await filterOf(ports, given);
        const options = { filter, json: given.json === true, limit: given.limit };
        if (given.follow === true) await follow(ports, terminal, { ...options, time: joins.time });
        else await list(ports, terminal, options);
      }),
    );
  addTargetOptions(command.command("show").summary("show one delivery"))
    .description("Shows a delivery: the request, its outcome, and its bytes.")
    .argument("<id>", "as shown by agents deliveries and in log lines")
    .addHelpText("after", "\nExample:\n  agents deliveries show mwvbsxl7-70lqa00")
    .action((id: string, given: GivenTarget) =>
      // Options of both commands: those before "show" belong to the outer one.
      withoutSql(context, { ...command.opts<GivenTarget>(), ...given }, (ports) =>
        showDelivery(ports, terminal, id, given.json === true),
      ),
    );
}

/** Throws `CliError` for an unknown class. */
export async function filterOf(
  { journal }: Pick<ReadPorts, "journal">,
  { route, status, agent, since: sinceMs }: GivenFilter,
): Promise<DeliveryFilter> {
  return {
    route,
    status,
    className: agent === undefined ? undefined : await existingClass(journal, agent.className),
    name: agent?.name,
    sinceMs,
  };
}

/** The list for the console. Throws `CliError`. */
export async function listDeliveries(
  ports: ReadPorts,
  terminal: Terminal,
  {
    given,
    ...options
  }: { readonly given: GivenFilter; readonly limit: number; readonly json: boolean },
): Promise<void> {
  await list(ports, terminal, { ...options, filter: await filterOf(ports, given) });
}

interface ListOptions {
  readonly filter: DeliveryFilter;
  readonly json: boolean;
  readonly limit: number | undefined;
}

/** Returns what it has printed. */
async function list(
  { deliveries }: ReadPorts,
  terminal: Terminal,
  options: ListOptions,
): Promise<ReadonlyArray<DeliveryRecord>> {
  const found = await lastDeliveries(deliveries, options.filter, options.limit ?? LIMIT_DEFAULT);
  for (const record of found) print(terminal, record, options.json);
  if (options.json) return found;
  if (found.length === 0) terminal.err("No deliveries.");
  else if (options.limit === undefined && found.length === LIMIT_DEFAULT)
    terminal.err(
      `These are the last ${LIMIT_DEFAULT}. --limit shows more, --since goes back to a time.`,
    );
  return found;
}

/**
 * Prints the list and then new records. Resolves at a signal. Follows before the list is read, and
 * holds back what comes meanwhile, so that nothing is missed between the two.
 */
async function follow(
  ports: ReadPorts,
  terminal: Terminal,
  options: ListOptions & { readonly time: Pick<TimeShape, "monotonicMs"> },
): Promise<void> {
  const held: DeliveryRecord[] = [];
  let take = (record: DeliveryRecord): void => void held.push(record);
  const stop = ports.deliveries.follow((records) => {
    for (const record of records) if (matches(record, options.filter)) take(record);
  });
  try {
    const listed = await list(ports, terminal, options);
    take = (record) => print(terminal, record, options.json);
    for (const record of held) if (!isListed(listed, record, options)) take(record);
    const signals = stopSignals(options.time);
    terminal.err("Following. Press Ctrl-C to stop.");
    await signals.stopped.finally(signals.release);
  } finally {
    stop();
  }
}

/** Whether the list has what the record says, or leaves it out because of its limit. */
function isListed(
  listed: ReadonlyArray<DeliveryRecord>,
  record: DeliveryRecord,
  { limit = LIMIT_DEFAULT }: Pick<ListOptions, "limit">,
): boolean {
  const known = listed.find(({ id }) => id === record.id);
  if (known !== undefined)
    return known.at > record.at || (known.at === record.at && known.status === record.status);
  const [first] = listed;
  if (first === undefined || listed.length < limit) return false;
  // It may be an earlier request whose outcome was stored after the list was read.
  return arrivalOf(record) < arrivalOf(first) && listed.some(({ at }) => at >= record.at);
}

/** Throws `CliError` if the log has no such delivery. */
export async function showDelivery(
  ports: ReadPorts,
  terminal: Terminal,
  id: string,
  json: boolean,
): Promise<void> {
  const records = await findDelivery(ports.deliveries, id);
  if (records.length === 0)
    throw notFound(
      `There is no delivery ${id} in the log: it is older than the log, or belongs to another installation. "agents deliveries" lists those that exist.`,
    );
  for (const record of records) {
    const input = await findInput(ports.journal, record);
    if (json) {
      terminal.out(JSON.stringify({ ...record, ...(input && { input: input.cause }) }));
      continue;
    }
    terminal.out(describe(record));
    terminal.out(details(record));
    if (input !== undefined) printInput(terminal, input.cause);
  }
}

const print = (terminal: Terminal, record: DeliveryRecord, json: boolean): void =>
  terminal.out(json ? JSON.stringify(record) : describe(record));

/** One line: time, outcome, target and id. */
function describe(record: DeliveryRecord): string {
  const { status, http, ms, agent, route, method, type, seq, duplicateOf, why, error } = record;
  const more = record.more === undefined ? [] : [`and ${record.more} like it`];
  return oneLine(
    [
      new Date(arrivalOf(record)).toISOString(),
      status.padEnd(11),
      String(http ?? "").padEnd(3),
      (ms === undefined ? "" : duration(ms)).padStart(7),
      [
        `${method ?? "POST"} ${route ?? "?"}`,
        ...(agent === undefined ? [] : [`→ ${agent.join("/")}`]),
      ].join(" "),
      ...(type === undefined ? [] : [type]),
      ...(seq === undefined ? [] : [`seq ${seq}`]),
      ...(duplicateOf === undefined ? [] : [`duplicate of seq ${duplicateOf}`]),
      ...(error === undefined && why === undefined ? [] : [error ?? why!]),
      ...more,
      record.id,
    ].join("  "),
  );
}

function details(record: DeliveryRecord): string {
  const { attempt, attempts, nextMs, provider, from, bytes, key, of, parts, status } = record;
  const row = (name: string, value: unknown): string[] =>
    value === undefined ? [] : [`    ${name.padEnd(12)}${oneLine(String(value))}`];
  const next = nextMs === undefined || status !== "failed" ? undefined : new Date(nextMs);
  return [
    ...row("provider", provider),
    ...row("from", from),
    ...row("bytes", bytes),
    ...row("input", key),
    ...row("inputs", parts),
    ...row("attempt", attempts === undefined ? attempt : `${attempt} of ${attempts}`),
    ...row("next try", next?.toISOString()),
    ...row("again of", of),
  ].join("\n");
}
