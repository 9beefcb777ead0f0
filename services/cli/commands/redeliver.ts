/**
 * `agents redeliver <id…>` and `--range`: delivers past webhooks to their agents again, under new
 * ids, with the original bytes and the recorded verification. The agent runs each like a new
 * webhook; its answer is dropped.
 */
import { Option, type Command } from "commander";
import {
  findDelivery,
  lastDeliveries,
  type DeliveryFilter,
} from "../../../core/delivery/deliveryHistory.ts";
import { findInput } from "../../../core/delivery/findInput.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { agentId } from "../../../schemas/Address.ts";
import { deliveryIds, type DeliveryRecord } from "../../../schemas/DeliveryRecord.ts";
import type { Joins } from "../../wiring/Joins.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import {
  addForkOptions,
  checkForkCount,
  failedOnForks,
  INPUTS_GO_ON,
  isOnFork,
  onForkHelp,
  runOnForks,
  type ForkInput,
  type GivenFork,
} from "../agents/onFork.ts";
import { storeDelivery, type DeliveryAgain } from "../agents/storeDelivery.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { parsed, readName } from "../options/argumentParsers.ts";
import {
  agentOption,
  routeOption,
  statusOption,
  type GivenFilter,
} from "../options/deliveryOptions.ts";
import { readRange, type TimeRange } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed, notFound, usage } from "../terminal/CliError.ts";
import { Progress } from "../terminal/Progress.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { filterOf } from "./deliveries.ts";

interface Given extends GivenTarget, GivenFork, Omit<GivenFilter, "since"> {
  readonly range?: TimeRange;
  readonly to?: string;
  readonly dryRun?: boolean;
}

/** More than people redeliver by hand. */
const RANGE_MAX = 10_000;

export function addRedeliver(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addForkOptions(addTargetOptions(program.command("redeliver")))
    .description(
      "Delivers accepted webhooks to their agents again: the same bytes under new ids, so that each takes effect again. The bytes of refused requests are not kept, so these can't be delivered again.",
    )
    .argument("[id...]", "as shown by agents deliveries")
    .addOption(
      new Option(
        "--range <from..to>",
        "all that arrived in this range: 2h..30m, or two times; <to> may be left out",
      ).argParser(parsed((text) => readRange(text, joins.time.nowMs()))),
    )
    .addOption(routeOption())
    .addOption(statusOption())
    .addOption(agentOption())
    .addOption(
      new Option(
        "--to <name>",
        "deliver to the agent of this name instead, such as a fork",
      ).argParser(parsed(readName)),
    )
    .addOption(new Option("--dry-run", "show what would be delivered, and deliver nothing"))
    .addHelpText(
      "after",
      `${onForkHelp(INPUTS_GO_ON)}

To a fork that stays, on the hosts' code and with real calls:
  agents fork repo-agent acme~site acme~site-try
  agents redeliver mwvbsxl7-70lqa00 --to acme~site-try

Examples:
  agents redeliver mwvbsxl7-70lqa00
  agents redeliver mwvbsxl7-70lqa00 --on-fork --module src/fixed.ts
  agents redeliver --range 2h.. --route /webhooks/github --status dead --dry-run`,
    )
    .action((ids: ReadonlyArray<string>, given: Given) => {
      const onFork = isOnFork(given);
      if (onFork && given.dryRun === true)
        throw usage("--on-fork delivers nothing without --yes: leave out --dry-run.");
      if (ids.length > 0 === (given.range !== undefined))
        throw usage('Specify ids, or --range <from..to>. "agents redeliver --help" has examples.');
      const { route, status, agent } = given;
      if (ids.length > 0 && (route ?? status ?? agent) !== undefined)
        throw usage("--route, --status and --agent belong to --range: leave them out with ids.");
      return withPorts(context, given, async (ports, target) => {
        const records =
          given.range === undefined
            ? await named(ports, [...new Set(ids)])
            : await inRange(ports, given, given.range);
        if (onFork) checkForkCount(records.length);
        const { module, json = false } = given;
        await redeliver(
          { ports, terminal, time: joins.time },
          records,
          given,
          onFork
            ? (inputs) => runOnForks({ ports, target, terminal, joins }, { module, json }, inputs)
            : undefined,
        );
      });
    });
}

/** Throws `CliError` for an id that the log does not have, and if one could not be sent. */
export async function redeliverNamed(
  parts: RedeliverParts,
  ids: ReadonlyArray<string>,
  given: Pick<Given, "to" | "json">,
): Promise<void> {
  await redeliver(parts, await named(parts.ports, ids), given, undefined);
}

interface RedeliverParts {
  readonly ports: ReadPorts;
  readonly terminal: Terminal;
  readonly time: Joins["time"];
}

/** Throws `CliError` for an id that the log does not have. */
async function named(
  { deliveries }: ReadPorts,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<DeliveryRecord>> {
  const found: DeliveryRecord[] = [];
  for (const id of ids) {
    // A request with several inputs is redelivered input by input.
    const records = (await findDelivery(deliveries, id)).filter((record) => record.of !== id);
    const parts = records.filter(({ agent }) => agent !== undefined);
    if (records.length === 0)
      throw notFound(
        `There is no delivery ${id} in the log. "agents deliveries" lists those that exist.`,
      );
    found.push(...(parts.length > 0 ? parts : records));
  }
  return found;
}

async function inRange(
  ports: ReadPorts,
  given: Given,
  range: TimeRange,
): Promise<ReadonlyArray<DeliveryRecord>> {
  const filter: DeliveryFilter = { ...(await filterOf(ports, given)), ...range };
  const found = await lastDeliveries(ports.deliveries, filter, RANGE_MAX + 1);
  if (found.length > RANGE_MAX)
    throw usage(`The range has more than ${RANGE_MAX} deliveries. Use a shorter one.`);
  return found.filter(({ agent }) => agent !== undefined);
}

/** An input that is to be delivered again. */
interface Again extends DeliveryAgain {
  readonly of: string;
  /** Sequence of the event that has it. */
  readonly seq: number;
}

/**
 * `onForks`: runs inputs on forks first, and returns which did not fail. Throws `CliError` after
 * the last one if any could not be sent or failed on its fork.
 */
async function redeliver(
  parts: RedeliverParts,
  records: ReadonlyArray<DeliveryRecord>,
  given: Pick<Given, "to" | "json" | "dryRun" | "yes">,
  onForks: ((inputs: ReadonlyArray<ForkInput>) => Promise<ReadonlySet<unknown>>) | undefined,
): Promise<void> {
  const { ports, terminal, time } = parts;
  const wrong: string[] = [];
  let fails = 0;
  let chosen: AsyncIterable<Again> | ReadonlyArray<Again> = findInputs(parts, records, given.to, wrong); // prettier-ignore
  if (onForks !== undefined) {
    const found: Again[] = [];
    for await (const again of chosen) found.push(again);
    const done = await onForks(found.map((again) => forkInputOf(again, time.nowMs())));
    const good = found.filter(({ of }) => done.has(of));
    fails = found.length - good.length;
    if (given.yes !== true && given.json !== true && good.length > 0)
      terminal.err("On forks only: nothing was delivered. Add --yes to deliver what did not fail.");
    chosen = given.yes === true ? good : [];
  }
  for await (const again of chosen) {
    const refused = await deliver(parts, again, given);
    if (refused !== undefined) wrong.push(`${again.of}: ${refused}`);
  }
  await ports.deliveries.flush();
  if (wrong.length > 0) throw failed(wrong.join("\n"));
  if (records.length === 0 && given.json !== true) terminal.err("No deliveries.");
  if (fails > 0) throw failedOnForks(fails, records.length, "not delivered");
}

/** Adds to `wrong` why a record has no input. */
async function* findInputs(
  { ports, terminal, time }: RedeliverParts,
  records: ReadonlyArray<DeliveryRecord>,
  to: string | undefined,
  wrong: string[],
): AsyncGenerator<Again> {
  const nextId = deliveryIds(time.id());
  const progress = new Progress(terminal, time, "deliveries");
  for (const [n, record] of records.entries()) {
    progress.tell(n, records.length);
    const input = await findInput(ports.journal, record);
    if (input === undefined) {
      wrong.push(`${record.id}: ${whyNot(record)}`);
      continue;
    }
    const id = nextId(time.nowMs());
    const { envelope, seq } = input;
    const agent = to === undefined ? input.id : agentId(input.id.class, to);
    yield { id, of: record.id, to: agent, key: `redelivery:${id}`, envelope, seq };
  }
  progress.end();
}

function forkInputOf({ of, to, key, envelope }: Again, nowMs: number): ForkInput {
  const { head, body } = envelope;
  return { label: of, id: to, envelope: { head: { ...head, key, time: nowMs }, body }, ranAs: head.key }; // prettier-ignore
}

/** Returns why it could not be delivered. */
async function deliver(
  { ports, terminal, time }: RedeliverParts,
  again: Again,
  { json, dryRun }: Pick<Given, "json" | "dryRun">,
): Promise<string | undefined> {
  const { id, of, to, seq } = again;
  const where = `${to.class} ${oneLine(to.name)}`;
  if (dryRun === true) {
    if (json === true) terminal.out(JSON.stringify({ of, class: to.class, name: to.name, seq }));
    else terminal.out(`${of}  ${where}  seq ${seq}: would be delivered`);
    return undefined;
  }
  const refused = await storeDelivery(ports, time.nowMs(), again);
  if (refused !== undefined) return refused;
  if (json === true) terminal.out(JSON.stringify({ id, of, class: to.class, name: to.name }));
  else terminal.out(`${of}  ${where}: delivered again as ${id}`);
  return undefined;
}

const whyNot = ({ status, agent }: DeliveryRecord): string =>
  agent === undefined || status === "refused"
    ? `it was ${status}, and its bytes are not kept`
    : status === "stored"
      ? "its agent has not processed it yet; the input still waits"
      : "its bytes are no longer in the agent's journal";
