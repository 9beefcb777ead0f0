/**
 * `agents rerun <class> <name> [module]`: runs an agent's past webhooks on other code and reports
 * what differs. Each webhook runs by itself in memory, on the agent as it was then, and its result
 * is compared with the recorded one.
 *
 * 1. Events are independent. If the result of one differs, the next still starts from the recorded
 *    state.
 * 2. Events that can't be run again are listed with the reason (`pastWebhooks`).
 * 3. The running agent is not involved. The exit code says whether any result differs, for
 *    pipelines.
 */
import { Option, type Command } from "commander";
import type { AgentDatabase } from "../../../core/database/Databases.ts";
import { compareAgents, type ComparedAgent } from "../../../core/history/compareAgents.ts";
import {
  isWebhook,
  pastTurns,
  type PastEnd,
  type PastRecords,
} from "../../../core/history/pastTurns.ts";
import { pastWebhooks, type PastWebhooks } from "../../../core/history/pastWebhooks.ts";
import {
  sendLine,
  type PastEvent,
  type Rerun,
  type RerunEvent,
} from "../../../core/history/Rerun.ts";
import { decodeStored } from "../../../core/journal/decodeStored.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import type { Cause } from "../../../schemas/JournalEvent.ts";
import type { Joins } from "../../wiring/Joins.ts";
import type { ReadPorts, Target } from "../../wiring/ReadPorts.ts";
import { findAgent } from "../agents/findAgent.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { loadForRuns } from "../serving/loadForRuns.ts";
import { differs } from "../terminal/CliError.ts";
import { Progress } from "../terminal/Progress.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { messageOf } from "../../../core/errors/thrown.ts";

interface RerunOptions {
  readonly className: string;
  readonly name: string;
  readonly module: string | undefined;
  /** Sequences, both included. Undefined: the first, and the last. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** At most this many events with webhooks, the last ones. */
  readonly last: number;
  /** Only webhooks that failed, were retried, or became dead letters. */
  readonly failed?: boolean | undefined;
  readonly json?: boolean | undefined;
}

type Given = GivenTarget & Pick<RerunOptions, "from" | "to" | "last" | "failed">;

/** One line of `--json`. */
export interface Told {
  readonly seq: number;
  readonly time: string;
  readonly inputs: ReadonlyArray<string>;
  readonly outcome: "same" | "differs" | "fails" | "skipped";
  /** Why the event was skipped, or how it failed. */
  readonly why?: string;
  readonly differences?: ReadonlyArray<string>;
  readonly sends?: Rerun["sends"];
}

/** Each takes tens of milliseconds, and a person waits for all of them. */
const RERUN_LAST_DEFAULT = 100;

export function addRerun(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("rerun"), "<class>", "<name>")
    .description(
      "Runs an agent's past webhooks again on a module's code, each one on the agent as it was then, and shows where the resulting state, tables or schedules differ. Runs in memory: the running agent is not involved, and nothing is sent.",
    )
    .argument("[module]", "file that exports the agents (default: as for agents dev)")
    .addOption(
      option
        .count("--last <count>", "only the last <count> events with webhooks")
        .default(RERUN_LAST_DEFAULT),
    )
    .addOption(option.count("--from <seq>", "only from this journal sequence on", 0))
    .addOption(option.count("--to <seq>", "only up to this journal sequence"))
    .addOption(
      new Option("--failed", "only webhooks that failed, were retried, or became dead letters"),
    )
    .addHelpText(
      "after",
      `
Each event starts from the recorded state before it, whatever the code made of earlier events. A
turn that was retried is compared with its last attempt. The clock shows the webhook's time. Steps
and this.fetch return their recorded results. A step without a recorded result, a request that
differs from the recorded one, and any other fetch fail and are shown. Webhooks and mail that the
agent sends are only listed. Requests, calls and frames are listed but not run again, because the
journal does not keep their bodies.
The exit code is 4 if anything differs, and 1 if not everything could be run.

--json prints one object a line:
  {seq, time, inputs, outcome: "same"|"differs"|"fails"|"skipped", why?, differences?, sends?}

Examples:
  agents rerun RepoAgent octocat~hello-world
  agents rerun RepoAgent octocat~hello-world src/next.ts --last 1000
  agents rerun RepoAgent octocat~hello-world src/fixed.ts --failed`,
    )
    .action((className: string, name: string, module: string | undefined, given: Given) =>
      withPorts(context, given, (ports, target) =>
        rerun({ ports, target }, terminal, joins, { ...given, className, name, module }),
      ),
    );
}

/**
 * Throws `CliError` if the agent does not exist, the module lacks its class, or any result
 * differs or fails.
 */
export async function rerun(
  { ports, target }: { readonly ports: ReadPorts; readonly target: Pick<Target, "natsUrl"> },
  terminal: Terminal,
  joins: Pick<Joins, "rerunOn" | "time">,
  options: RerunOptions,
): Promise<void> {
  const id = await findAgent(ports.journal, options.className, options.name);
  const code = await loadForRuns(terminal, joins.time, options.module, new Set([id.class]));
  const run = await joins.rerunOn(code, target.natsUrl);
  const ends = await webhooksOf(ports, id, options);
  const counts = { same: 0, differs: 0, fails: 0, skipped: 0 };
  const progress = new Progress(terminal, joins.time, "events run again");
  let done = 0;
  for await (const event of pastWebhooks(id, ends, ports)) {
    progress.tell(done++, ends.length);
    const told = await runAgain(ports, run, event);
    counts[told.outcome]++;
    if (options.json) terminal.out(JSON.stringify(told));
    else for (const line of linesOf(told)) terminal.out(line);
  }
  progress.end();
  const all = `${counts.same} the same, ${counts.differs} different, ${counts.fails} failed, ${counts.skipped} skipped`;
  if (counts.differs + counts.fails > 0) throw differs(`${addressKey(id)}: ${all}.`);
  if (!options.json) terminal.out(`${addressKey(id)}: ${all}.`);
  if (ends.length === 0)
    terminal.err("Nothing was compared: no webhook that it has processed was selected.");
}

/** The events that end turns of webhooks. */
async function webhooksOf(
  { journal }: ReadPorts,
  id: AgentId,
  { from = 1, to, last, failed: onlyFailed }: RerunOptions,
): Promise<ReadonlyArray<PastEnd>> {
  const ends: PastEnd[] = [];
  const range = { fromSeq: 1 as Sequence, ...(to === undefined ? {} : { toSeq: to as Sequence }) };
  async function* events(): AsyncGenerator<PastRecords> {
    for await (const stored of journal.read(id, range))
      yield { seq: stored.seq, head: decodeStored(stored).head };
  }
  for await (const end of pastTurns(events())) {
    if (end.seq < from || (onlyFailed === true && !end.failed)) continue;
    ends.push(end);
    if (ends.length > last) ends.shift();
  }
  return ends;
}

/** Opens a database with the bytes of `image` for the duration of `look`. */
async function withDatabase<A>(
  { databases }: ReadPorts,
  id: AgentId,
  image: Uint8Array,
  look: (database: AgentDatabase) => Promise<A>,
): Promise<A> {
  const { database } = databases.open(id);
  try {
    database.restore(image);
    return await look(database);
  } finally {
    database.close();
  }
}

async function runAgain(ports: ReadPorts, run: RerunEvent, event: PastWebhooks): Promise<Told> {
  const { seq, head, causes, obstacle, past, before, after } = event;
  const about = { seq, time: new Date(head.time).toISOString(), inputs: causes.map(nameOf) };
  if (obstacle !== undefined) return { ...about, outcome: "skipped", why: obstacle };
  const errors = head.turns.filter(isWebhook).flatMap(({ error }) => error ?? []);
  const outcome = await withDatabase(ports, past.id, before.image, (began) =>
    withDatabase(ports, past.id, after.image, (database) =>
      outcomeOf(run, past, { began, errors, state: after.state, database }),
    ),
  );
  return { ...about, ...outcome };
}

async function outcomeOf(
  run: RerunEvent,
  past: PastEvent,
  recorded: ComparedAgent & {
    /** The database before the event. */
    readonly began: AgentDatabase;
    readonly errors: ReadonlyArray<string>;
  },
): Promise<Pick<Told, "outcome" | "why" | "differences" | "sends">> {
  let again: Rerun;
  try {
    again = await run(past);
  } catch (error) {
    return { outcome: "fails", why: messageOf(error) };
  }
  try {
    const differences = [...again.steps, ...compareAgents(recorded, again.after, recorded.began)];
    const sends = again.sends.length === 0 ? {} : { sends: again.sends };
    const [error] = again.errors;
    if (error !== undefined && recorded.errors.length === 0)
      return { outcome: "fails", why: error, differences, ...sends };
    if (error === undefined && recorded.errors.length > 0)
      return { outcome: "differs", differences: [`no error; it was ${recorded.errors.join("; ")}`, ...differences], ...sends }; // prettier-ignore
    if (differences.length === 0) return { outcome: "same", ...sends };
    return { outcome: "differs", differences, ...sends };
  } finally {
    await again.close();
  }
}

const nameOf = ({ provider, type, id }: Cause): string =>
  [provider, type, id].filter((part) => part !== undefined).join(" ");

function* linesOf({
  seq,
  inputs,
  outcome,
  why,
  differences = [],
  sends = [],
}: Told): Generator<string> {
  const end = why === undefined ? outcome : `${outcome}: ${why}`;
  yield oneLine(`${seq}  ${inputs.join(", ")}  ${end}`);
  for (const difference of differences) yield `    ${oneLine(difference)}`;
  for (const send of sends) yield `    ${oneLine(sendLine(send))}`;
}
