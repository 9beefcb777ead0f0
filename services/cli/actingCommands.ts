/**
 * The commands that do something to agents from outside: `call`, `erase`, and `dead` with its parts. Adds them to
 * the program; the work is in `commands/`.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import { call } from "./commands/call.ts";
import { erase } from "./commands/erase.ts";
import { deadDrop, deadList, deadRedrive, deadShow } from "./commands/dead.ts";
import type { Joins } from "../wiring/Joins.ts";
import * as options from "./options.ts";
import { CLASS_HELP, NAME_HELP } from "./readingCommands.ts";
import { addTargetOptions, withPortsOf, type GivenTarget } from "./targetOptions.ts";
import type { Terminal } from "./Terminal.ts";

/** Longer than a host takes to die and another to take over. */
const CALL_TIMEOUT_SECONDS = 30;
const DAY_SECONDS = 86_400;

export function addActingCommands(program: Command, joins: Joins, terminal: Terminal): void {
  const withPorts = withPortsOf(joins, terminal);

  addTargetOptions(program.command("call").summary("call a method of an agent"))
    .description(
      "Calls a public method of an agent, as another agent's stub would, and prints its result. Starts the agent if it is not in memory, and makes it if it is not there at all.",
    )
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .argument("<method>", "name of the method")
    .argument("[json...]", "its arguments, each as JSON")
    .addOption(
      new Option("--timeout <seconds>", "give up after so long")
        .default(CALL_TIMEOUT_SECONDS)
        .argParser((text: string) => options.readWhole(text, 1, DAY_SECONDS)),
    )
    .addHelpText(
      "after",
      `
--json prints the result as one line of JSON; null when there is none. What the method throws is
printed on stderr, with exit code 1. Arguments that begin with a dash go after --.

Examples:
  agents call repo-agent octocat~hello-world listEvents 5
  agents call Greeter front-door greet '"Ada"' '{"loud": true}'
  agents call Counter hits add -- -1`,
    )
    .action((className: string, name: string, method: string, args: string[], given: GivenCall) =>
      withPorts(given, (ports) =>
        call(ports, terminal, {
          className,
          name,
          method,
          args,
          json: given.json === true,
          timeoutMs: given.timeout * 1000,
        }),
      ),
    );

  addTargetOptions(program.command("erase").summary("remove an agent and all that is stored of it"))
    .description(
      "Removes an agent for good: state, SQL, history, inputs, schedules, dead letters, blobs, snapshots, and the hosts' local files. Works while the installation runs: the agent's host ends its life first, and its sockets are closed.",
    )
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .option("--yes", "do it")
    .option("--while-away", "do it though a nats-server that holds copies is away")
    .addHelpText(
      "after",
      `
One event without content stays in the journal: that it was erased. Stop what sends to the agent
first; an input that comes later makes a new agent of the same name. What backups and copies of
the broker's disks hold is not touched.

--json prints {class, name, removed: {events, inputs, …}, end, lives, hosts, silent, away}

Examples:
  agents export RepoAgent octocat~hello-world > agent.jsonl
  agents erase RepoAgent octocat~hello-world --yes`,
    )
    .action((className: string, name: string, given: GivenErase) =>
      withPorts(given, (ports) =>
        erase(ports, terminal, joins.time, {
          className,
          name,
          yes: given.yes === true,
          whileAway: given.whileAway === true,
          json: given.json === true,
        }),
      ),
    );

  const dead = program
    .command("dead")
    .summary("inputs that exhausted their attempts: look, run again, drop")
    .description(
      "Dead letters: webhooks, queue items, schedules' runs and outgoing webhooks whose last attempt failed, with the error. They wait here until somebody decides.",
    )
    .addHelpText(
      "after",
      `
Examples:
  agents dead list
  agents dead show 7
  agents dead redrive 7
  agents dead list repo-agent --json | jq .id | xargs agents dead redrive`,
    );
  const part = (name: string, summary: string, example: string): Command =>
    addTargetOptions(dead.command(name).summary(summary))
      .description(summary[0]!.toUpperCase() + summary.slice(1) + ".")
      .addHelpText("after", `\nExample:\n  agents dead ${example}`);
  const each = (name: string, summary: string, run: typeof deadDrop): void => {
    part(name, summary, `${name} 7`)
      .argument("<id...>", "numbers, as agents dead list shows them", readIds)
      .action((ids: ReadonlyArray<number>, given: GivenTarget) =>
        withPorts(given, (ports) => run(ports, terminal, { ids, json: given.json === true })),
      );
  };

  part("list", "which dead letters there are, the oldest first", "list repo-agent")
    .argument("[class]", CLASS_HELP)
    .action((className: string | undefined, given: GivenTarget) =>
      withPorts(given, (ports) =>
        deadList(ports, terminal, { className, json: given.json === true }),
      ),
    );
  each("show", "all that is known of a dead letter: the input and the error", deadShow);
  each("redrive", "let an input run again, with all its attempts", deadRedrive);
  each("drop", "forget a dead letter for good", deadDrop);
}

function readIds(text: string, before: ReadonlyArray<number> = []): ReadonlyArray<number> {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError("Give its number.");
  return [...before, options.readWhole(text, 1, Number.MAX_SAFE_INTEGER)];
}

interface GivenErase extends GivenTarget {
  readonly yes?: boolean;
  readonly whileAway?: boolean;
}

interface GivenCall extends GivenTarget {
  readonly timeout: number;
}
