/**
 * The commands that look at agents: `list`, `history`, `state`, `rerun`, `sql`, `schedules`, `tail`. Adds them to the program;
 * the work is in `commands/`. They read the broker and disturb nobody.
 */
import { Option, type Command } from "commander";
import { console as consoleCommand, givenToken } from "./commands/console.ts";
import { history } from "./commands/history.ts";
import { list } from "./commands/list.ts";
import { rerun } from "./commands/rerun.ts";
import { schedules } from "./commands/schedules.ts";
import { sql } from "./commands/sql.ts";
import { state } from "./commands/state.ts";
import { tail } from "./commands/tail.ts";
import type { Joins } from "../wiring/Joins.ts";
import * as options from "./options.ts";
import { addTargetOptions, withPortsOf, type GivenTarget } from "./targetOptions.ts";
import type { Terminal } from "./Terminal.ts";

/** Beside the gateway's default. */
const CONSOLE_PORT_DEFAULT = 8790;
/** Some tens of milliseconds each: a person waits for them. */
const RERUN_LAST_DEFAULT = 100;

export const CLASS_HELP = "agent class, as in code or in URLs: RepoAgent, repo-agent";
export const NAME_HELP = "name of the agent";

export function addReadingCommands(program: Command, joins: Joins, terminal: Terminal): void {
  const reading = (name: string, summary: string): Command =>
    addTargetOptions(program.command(name).summary(summary));
  const withPorts = withPortsOf(joins, terminal);
  const flags = (given: Given) => ({ json: given.json === true, at: given.at });

  reading("list", "which agents exist, of one class or all")
    .description(
      "Lists the agents that exist: their events, when the last was, and which host runs them.",
    )
    .argument("[class]", CLASS_HELP)
    .addHelpText(
      "after",
      `
--json prints one object a line: {class, name, events, lastSeq, time, owner?}

Examples:
  agents list
  agents list repo-agent --json | jq -r .name`,
    )
    .action((className: string | undefined, given: Given) =>
      withPorts(given, (ports) => list(ports, terminal, { className, ...flags(given) })),
    );

  reading("history", "what happened to an agent, turn by turn")
    .description("Shows an agent's journal: what came in, what changed, who did it.")
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .addOption(
      new Option("--limit <count>", "only the last so many turns").argParser((text: string) =>
        options.readWhole(text, 1, Number.MAX_SAFE_INTEGER),
      ),
    )
    .addOption(
      new Option("--from <seq>", "only from this journal sequence on").argParser((text: string) =>
        options.readWhole(text, 0, Number.MAX_SAFE_INTEGER),
      ),
    )
    .addHelpText(
      "after",
      `
--json prints one object a line, oldest first:
  {seq, time, cause, state?, sql?, schedules?, queue?, done?, host, epoch}
cause has kind, id, provider, type, headers and body of what came in; state is the state after
the turn, where the turn changed it.

Examples:
  agents history repo-agent octocat~hello-world
  agents history RepoAgent octocat~hello-world --limit 20
  agents history RepoAgent octocat~hello-world --json | jq 'select(.cause.type == "push")'`,
    )
    .action((className: string, name: string, given: Given) =>
      withPorts(given, (ports) =>
        history(ports, terminal, {
          className,
          name,
          json: given.json === true,
          limit: given.limit,
          fromSeq: given.from,
        }),
      ),
    );

  reading("state", "an agent's state, now or at any point of its history")
    .description(
      "Prints an agent's state, rebuilt from its journal. The running agent is not disturbed.",
    )
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .addOption(options.at())
    .addHelpText(
      "after",
      `
--json prints {class, name, seq, time, state}

Examples:
  agents state repo-agent octocat~hello-world
  agents state repo-agent octocat~hello-world --at 42
  agents state repo-agent octocat~hello-world --at 2026-03-01T09:30:00Z --json`,
    )
    .action((className: string, name: string, given: Given) =>
      withPorts(given, (ports) => state(ports, terminal, { className, name, ...flags(given) })),
    );

  reading("rerun", "what other code makes of an agent's past")
    .description(
      "Runs the webhooks of an agent's past again on the code of a module, each by itself, on the agent as it was then; and shows where state, tables or schedules come out otherwise. All in memory: the running agent is not asked, and nothing is sent.",
    )
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .argument("[module]", "the file that exports the agents; default: as for agents dev")
    .addOption(
      new Option("--last <count>", "only the last so many events with webhooks")
        .argParser((text: string) => options.readWhole(text, 1, Number.MAX_SAFE_INTEGER))
        .default(RERUN_LAST_DEFAULT),
    )
    .addOption(
      new Option("--from <seq>", "only from this journal sequence on").argParser((text: string) =>
        options.readWhole(text, 0, Number.MAX_SAFE_INTEGER),
      ),
    )
    .addOption(
      new Option("--to <seq>", "only up to this journal sequence").argParser((text: string) =>
        options.readWhole(text, 1, Number.MAX_SAFE_INTEGER),
      ),
    )
    .addHelpText(
      "after",
      `
Each event begins as it really was, whatever the code made of those before. Time is that of the
webhook; a fetch of the agent's fails, webhooks and mail that it sends are only listed. Not run
again, and named: requests, calls and frames, whose bodies the journal does not keep.
Exit code 1 when anything goes another way.

--json prints one object a line:
  {seq, time, inputs, outcome: "same"|"differs"|"fails"|"skipped", why?, differences?, sends?}

Examples:
  agents rerun RepoAgent octocat~hello-world
  agents rerun RepoAgent octocat~hello-world src/next.ts --last 1000`,
    )
    .action((className: string, name: string, module: string | undefined, given: GivenRerun) =>
      withPorts(given, (ports) =>
        rerun(ports, terminal, joins, {
          className,
          name,
          module,
          from: given.from,
          to: given.to,
          last: given.last,
          json: given.json === true,
        }),
      ),
    );

  reading("sql", "query an agent's database, now or at any point of its history")
    .description("Runs a query on a copy of an agent's database, rebuilt from its journal.")
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .argument("<query>", "one SQLite statement that reads")
    .addOption(options.at())
    .addHelpText(
      "after",
      `
--json prints an array of rows, objects by column; blobs are base64.

Examples:
  agents sql repo-agent octocat~hello-world "SELECT type, count(*) FROM events GROUP BY type"
  agents sql repo-agent octocat~hello-world "SELECT * FROM events" --at 42 --json`,
    )
    .action((className: string, name: string, query: string, given: Given) =>
      withPorts(given, (ports) =>
        sql(ports, terminal, { className, name, query, ...flags(given) }),
      ),
    );

  reading("schedules", "what an agent has scheduled, now or at any point of its history")
    .description(
      "Lists an agent's schedules, the next first, from a copy rebuilt from its journal. An agent changes its own: see this.schedule, this.cancelSchedule and the table svc_agents_schedules.",
    )
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .addOption(options.at())
    .addHelpText(
      "after",
      `
--json prints one object a line:
  {id, type, callback, payload?, due, cron?, timezone?, intervalSeconds?, delayInSeconds?, misfire, running, retry?}

Examples:
  agents schedules repo-agent octocat~hello-world
  agents schedules RepoAgent octocat~hello-world --json | jq -r .due`,
    )
    .action((className: string, name: string, given: Given) =>
      withPorts(given, (ports) => schedules(ports, terminal, { className, name, ...flags(given) })),
    );

  reading("tail", "watch turns as they are committed")
    .description(
      "Prints each turn as it is committed, of one agent, of a class or of all, until Ctrl-C. What happened before is in agents history.",
    )
    .argument("[class]", CLASS_HELP)
    .argument("[name]", NAME_HELP)
    .addOption(
      new Option("--limit <count>", "end after so many turns").argParser((text: string) =>
        options.readWhole(text, 1, Number.MAX_SAFE_INTEGER),
      ),
    )
    .addHelpText(
      "after",
      `
--json prints one object a line: {class, name, …} and what agents history prints.

Examples:
  agents tail
  agents tail repo-agent octocat~hello-world
  agents tail --json | jq 'select(.error)'`,
    )
    .action((className: string | undefined, name: string | undefined, given: Given) =>
      withPorts(given, (ports) =>
        tail(ports, terminal, {
          className,
          name,
          json: given.json === true,
          limit: given.limit,
          time: joins.time,
        }),
      ),
    );

  reading("console", "an operator's page: agents, their turns, state and rows at any turn")
    .description(
      "Serves a page and an API for operators on a port of their own: agents, what happened to them turn by turn, their state, rows and schedules at any turn, dead letters, hosts. Only who knows the token sees it.",
    )
    .addOption(
      new Option("--port <port>", "port; 0: any free one")
        .env("AGENTS_CONSOLE_PORT")
        .default(CONSOLE_PORT_DEFAULT)
        .argParser(options.readPort),
    )
    .addOption(new Option("--hostname <address>", "address to listen on").default("127.0.0.1"))
    .addOption(
      new Option(
        "--token-file <file>",
        "file with the token that opens it; or AGENTS_CONSOLE_TOKEN (made up and printed if neither is given)",
      ).env("AGENTS_CONSOLE_TOKEN_FILE"),
    )
    .addOption(new Option("--token <token>").hideHelp())
    .addOption(
      new Option(
        "--public-host <name>",
        "name that callers ask for, where a proxy is in front of it; requests for other names are refused",
      ).env("AGENTS_CONSOLE_PUBLIC_HOST"),
    )
    .addOption(options.noWorkers("the console is one process"))
    .addHelpText(
      "after",
      `
The API, with "Authorization: Bearer <token>"; GET gives what the reading commands print with --json:
  GET  /api/agents?class=&prefix=&limit=
  GET  /api/agents/<class>/<name>/history?limit=
  GET  /api/agents/<class>/<name>/state|schedules?at=
  GET  /api/agents/<class>/<name>/sql?query=&at=
  GET  /api/dead, /api/hosts
  POST /api/dead/<id>/redrive|drop

Examples:
  agents console
  agents console --nats nats://nats:4222 --hostname 0.0.0.0 --port 8790`,
    )
    .action((given: Given & GivenConsole) =>
      withPorts(given, (ports) =>
        consoleCommand(ports, joins, terminal, {
          hostname: given.hostname,
          port: given.port,
          publicHost: given.publicHost || undefined,
          token: givenToken(terminal, given),
          log: joins.log({ level: "info", format: terminal.interactive ? "text" : "json" }),
        }),
      ),
    );
}

/** What commander gives for the options above. */
interface GivenRerun extends GivenTarget {
  readonly last: number;
  readonly from?: number;
  readonly to?: number;
}
interface Given extends GivenTarget {
  readonly at?: string;
  readonly limit?: number;
  readonly from?: number;
}

interface GivenConsole {
  readonly port: number;
  readonly hostname: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly publicHost?: string;
}
