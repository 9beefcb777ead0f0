/**
 * `--on-fork` of `agents dead redrive`, `agents redeliver` and `agents release`: runs inputs on
 * forks of their agents before the agents receive them, and shows what came out. A fork is the
 * agent as it is now, in this process's memory, on a module's code; a fork never runs on a host.
 *
 * 1. Nothing is stored and nothing is sent (`sealedWhile`), so an interrupted command leaves
 *    nothing to remove.
 * 2. The inputs of one agent run one after another on one fork, as they would on the agent.
 * 3. Steps return what they returned when the input first ran. A step or request without a result
 *    fails and is shown.
 * 4. A job that still waits at the agent is taken from the fork first, so that it runs as its input
 *    and not beside another.
 */
import { Option, type Command } from "commander";
import { compareAgents, type ComparedAgent } from "../../../core/history/compareAgents.ts";
import { beginningOf } from "../../../core/history/pastWebhooks.ts";
import { takeJobs } from "../../../core/history/waitingJobs.ts";
import { InputTurns, type PastTurn } from "../../../core/history/pastTurns.ts";
import {
  sendLine,
  type PastEvent,
  type PastInput,
  type RecordedStep,
  type Rerun,
  type RerunEvent,
  type RerunSend,
} from "../../../core/history/Rerun.ts";
import { messageOf } from "../../../core/errors/thrown.ts";
import { decodeStored } from "../../../core/journal/decodeStored.ts";
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import type { InboxEnvelope } from "../../../schemas/InboxEnvelope.ts";
import type { Joins } from "../../wiring/Joins.ts";
import type { ReadPorts, Target } from "../../wiring/ReadPorts.ts";
import { differs, usage, type CliError } from "../terminal/CliError.ts";
import { Progress } from "../terminal/Progress.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** The values that commander parses. */
export interface GivenFork {
  readonly onFork?: boolean;
  readonly module?: string;
  readonly yes?: boolean;
}

export interface ForkInput {
  /** Identifies the input in its command. */
  readonly label: number | string;
  readonly id: AgentId;
  readonly envelope: InboxEnvelope;
  /** The key under which it ran before. */
  readonly ranAs: string;
}

/** What came out on the fork. One line of `--json`. */
export interface Tried {
  readonly id: number | string;
  readonly class: string;
  readonly name: string;
  /** The agent's last event when it was forked; 0: it had none. */
  readonly seq: number;
  readonly outcome: "done" | "fails";
  /** The error. */
  readonly why?: string;
  /** State, rows, schedules and jobs: the agent before, and the fork after. */
  readonly differences: ReadonlyArray<string>;
  readonly sends: ReadonlyArray<RerunSend>;
}

/** `yes`: sentences on what the command does with `--yes`. */
export const onForkHelp = (yes: string): string => `
--on-fork runs each input on a copy of its agent, in this process's memory and on a module's code,
and shows its error, what it changed in state, rows and schedules, and what it would send. Nothing
is stored or sent: any connection fails, and a step or this.fetch returns what it returned when the
input first ran, or fails if that was not recorded. Other agents that it calls are new and empty.
Inputs of one agent run one after another on one copy. Without --yes nothing else happens.
${yes}
The exit code is 4 if any failed on its fork.`;

export const INPUTS_GO_ON = `With it, the inputs whose turns ended without an error then run on the agents themselves.`;

/** `yes`: what the command does with `--yes` in the end. */
export function addForkOptions(
  command: Command,
  yes = "run on the agents the inputs that did not fail",
): Command {
  return command
    .addOption(
      new Option("--on-fork", "run the inputs on forks in memory first, and show what comes out"),
    )
    .addOption(
      new Option(
        "--module <file>",
        "with --on-fork: file that exports the agents (default: as for agents dev)",
      ),
    )
    .addOption(new Option("--yes", `with --on-fork: then ${yes}`));
}

/** Throws `CliError` for an option that has no meaning. */
export function isOnFork({ onFork, module, yes }: GivenFork): boolean {
  if (onFork === true) return true;
  if (module !== undefined || yes === true)
    throw usage(
      `${yes === true ? "--yes" : "--module"} belongs to --on-fork, which runs the inputs on forks first. Add --on-fork, or leave it out.`,
    );
  return false;
}

/** They are in memory together, and a person waits some tens of milliseconds for each. */
const INPUTS_MAX = 1_000;

/** Throws `CliError` for more inputs than run on forks at a time. */
export function checkForkCount(count: number): void {
  if (count > INPUTS_MAX)
    throw usage(
      `--on-fork runs at most ${INPUTS_MAX} inputs at a time, and these are ${count}: choose fewer.`,
    );
}

/** The command's end if some failed. `kept`: what became of these. */
export const failedOnForks = (fails: number, count: number, kept: string): CliError =>
  differs(
    count === 1
      ? `It failed on the fork, and was ${kept}.`
      : `${fails} of ${count} failed on their forks, and were ${kept}.`,
  );

export interface OnForkParts {
  readonly ports: ReadPorts;
  readonly target: Pick<Target, "natsUrl">;
  readonly terminal: Terminal;
  readonly joins: Pick<Joins, "rerunOn" | "time">;
}

/**
 * Runs the inputs and prints what came out of each. Returns the labels of those that did not fail.
 * Throws `CliError` if the module lacks a class, before anything runs.
 */
export async function runOnForks(
  { ports, target, terminal, joins }: OnForkParts,
  { module, json }: { readonly module: string | undefined; readonly json: boolean },
  inputs: ReadonlyArray<ForkInput>,
): Promise<ReadonlySet<number | string>> {
  const done = new Set<number | string>();
  if (inputs.length === 0) return done;
  // Late: a command without --on-fork loads no module.
  const { loadForRuns } = await import("../serving/loadForRuns.ts");
  const code = await loadForRuns(
    terminal,
    joins.time,
    module,
    new Set(inputs.map(({ id }) => id.class)),
  );
  const run = await joins.rerunOn(code, target.natsUrl);
  const progress = new Progress(terminal, joins.time, "inputs run");
  let count = 0;
  for (const [id, own] of byAgent(inputs)) {
    for await (const tried of runOnFork(ports, run, {
      id,
      inputs: own,
      nowMs: joins.time.nowMs(),
    })) {
      progress.tell(count++, inputs.length);
      if (tried.outcome === "done") done.add(tried.id);
      if (json) terminal.out(JSON.stringify(tried));
      else for (const line of linesOf(tried)) terminal.out(line);
    }
  }
  progress.end();
  return done;
}

/** Rule 2. */
function byAgent(
  inputs: ReadonlyArray<ForkInput>,
): Iterable<readonly [AgentId, ReadonlyArray<ForkInput>]> {
  const agents = new Map<string, [AgentId, ForkInput[]]>();
  for (const input of inputs) {
    const key = addressKey(input.id);
    const found = agents.get(key);
    if (found === undefined) agents.set(key, [input.id, [input]]);
    else found[1].push(input);
  }
  return agents.values();
}

async function* runOnFork(
  ports: ReadPorts,
  run: RerunEvent,
  { id, inputs, nowMs }: { readonly id: AgentId; readonly inputs: ReadonlyArray<ForkInput>; readonly nowMs: number }, // prettier-ignore
): AsyncGenerator<Tried> {
  const steps = await recordedSteps(ports, id, new Set(inputs.map(({ ranAs }) => ranAs)));
  const agent = await rebuildAgent(id, ports);
  takeJobs(agent.database, new Set(inputs.flatMap(({ envelope }) => envelope.head.job?.key ?? []))); // Rule 4.
  let fork: Fork = {
    agent,
    before: await beginningOf(ports.journal, agent),
    close: () => Promise.resolve(agent.database.close()),
  };
  try {
    for (const { label, envelope, ranAs } of inputs) {
      const about = { id: label, class: id.class, name: id.name, seq: agent.seq };
      const input: PastInput = { ...envelope, attempts: 0, steps: steps.get(ranAs) ?? [] };
      let ran: Rerun;
      try {
        ran = await run({ id, before: fork.before, inputs: [input], startMs: nowMs });
      } catch (error) {
        yield { ...about, outcome: "fails", why: messageOf(error), differences: [], sends: [] };
        continue;
      }
      const was = fork;
      fork = { ...(await ran.rest()), close: ran.close };
      const found = compareAgents(was.agent, ran.after, was.agent.database);
      await was.close();
      const [why] = ran.errors;
      yield {
        ...about,
        outcome: why === undefined ? "done" : "fails",
        ...(why !== undefined && { why }),
        // Each once for all attempts.
        differences: [...new Set(ran.steps), ...found],
        sends: ran.sends,
      };
    }
  } finally {
    await fork.close();
  }
}

/** What the next input begins with. */
interface Fork extends Pick<PastEvent, "before"> {
  readonly agent: ComparedAgent;
  readonly close: () => Promise<void>;
}

/** Rule 3, by the keys of inputs. A step that failed has no result: a redrive runs it again. */
async function recordedSteps(
  { journal }: ReadPorts,
  id: AgentId,
  keys: ReadonlySet<string>,
): Promise<ReadonlyMap<string, ReadonlyArray<RecordedStep>>> {
  const found = new Map<string, ReadonlyArray<RecordedStep>>();
  const turns = new InputTurns(({ cause }) => cause.id !== undefined && keys.has(cause.id));
  const note = (ran: Iterable<readonly [string, Pick<PastTurn, "steps" | "again">]>): void => {
    for (const [key, { steps, again }] of ran)
      found.set(
        key,
        steps.filter((step) => !again.has(step.key)),
      );
  };
  for await (const stored of journal.read(id, { fromSeq: 1 as Sequence }))
    note(turns.add({ seq: stored.seq, head: decodeStored(stored).head })?.turns ?? []);
  note(turns.unfinished);
  return found;
}

function* linesOf({
  id,
  seq,
  outcome,
  why,
  differences,
  sends,
  ...agent
}: Tried): Generator<string> {
  const end = why === undefined ? outcome : `${outcome}: ${why}`;
  yield oneLine(`${id}  ${agent.class} ${agent.name}, forked at ${seq}  ${end}`);
  for (const difference of differences) yield `    ${oneLine(difference)}`;
  for (const line of new Set(sends.map(sendLine))) yield `    ${oneLine(line)}`;
}
