/**
 * `agents console`: serves the operator's page and API on a separate port, behind a token. The
 * console shows what the reading commands print with `--json` (`consoleSource`).
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { hostAndPort } from "../../../core/http/hostAndPort.ts";
import type { LogShape } from "../../../core/telemetry/Log.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { Joins } from "../../wiring/Joins.ts";
import type { ReadPorts, Target } from "../../wiring/ReadPorts.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { consoleSource } from "./consoleSource.ts";
import { ownProcess } from "./ownProcess.ts";
import { usage } from "../terminal/CliError.ts";
import { stopSignals } from "../terminal/stopSignals.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** Bytes of a generated token, which is too long to guess. */
const TOKEN_BYTES = 24;
/** The fewest characters of a token that the operator sets. */
const TOKEN_MIN = 16;

interface ConsoleOptions {
  readonly hostname: string;
  readonly port: number;
  /** The host name that callers use if a proxy is in front of the console. */
  readonly publicHost: string | undefined;
  /** Undefined: a token is generated for this run. */
  readonly token: string | undefined;
  readonly log: LogShape;
  /** Modules on which the page may rerun an agent's past. */
  readonly modules: ReadonlyArray<string>;
  /** The absolute path of the folder with the view of all agents. */
  readonly dataFolder: string;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly port: number;
  readonly hostname: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly publicHost?: string;
  readonly rerun?: ReadonlyArray<string>;
}

export function addConsole(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(
    program
      .command("console")
      .summary("serve a page for operators: agents, their turns, state and rows"),
  )
    .description(
      "Serves a page and an API for operators on a separate port: deliveries, agents, their turns, which turn wrote a field, their state, rows and schedules after any turn, reruns of the past on other code, dead letters and hosts. Access requires the token.",
    )
    .addOption(option.consolePort("--port", "port; 0: any free one"))
    .addOption(new Option("--hostname <address>", "address to listen on").default("127.0.0.1"))
    .addOption(
      new Option(
        "--token-file <file>",
        "file with the access token; or AGENTS_CONSOLE_TOKEN (generated and printed if neither is set)",
      ).env("AGENTS_CONSOLE_TOKEN_FILE"),
    )
    .addOption(new Option("--token <token>").hideHelp())
    .addOption(
      new Option(
        "--public-host <name>",
        "the name in the console's URL behind a proxy; requests with another Host are refused",
      ).env("AGENTS_CONSOLE_PUBLIC_HOST"),
    )
    .addOption(
      new Option(
        "--rerun <module...>",
        "modules on which the page may rerun an agent's past and run inputs on forks; their code runs in separate processes",
      ),
    )
    .addOption(option.noWorkers("the console is one process"))
    .addHelpText(
      "after",
      `
The API needs "Authorization: Bearer <token>". GET returns what the reading commands print with
--json:
  GET  /api/overview, /api/hosts, /api/top
  GET  /api/agents?class=&prefix=&text=&after=<class>/<name>&fresh&limit=
                                   without fresh, a page after the first may be up to
                                   30 seconds old
  GET  /api/agents/<class>/<name>/history?kind=&route=&delivery=&failed&text=&from=&to=&rows
                                         &limit=&omit=
                                   omit=state,input leaves out values of the state
                                   (true: changed), and headers and bodies
  GET  /api/agents/<class>/<name>/state|schedules?at=
  GET  /api/agents/<class>/<name>/sql?query=&at=
  GET  /api/agents/<class>/<name>/why?path=, …/diff?from=&to=
                                   a name . or .. is a parameter: …/-/state?name=..
  GET  /api/query?sql=&at=&after=<class>/<name>@<seq>
                                   rows of one SELECT over all agents
  GET  /api/quarantined
  POST /api/agents/<class>/<name>/release, …/on-fork?module= (what waits for it, if quarantined)
  POST /api/agents/<class>/<name>/fork?to=&at=, …/rerun?module=&from=&to=&failed&limit=
  GET  /api/deliveries?status=&route=&agent=&since=&limit=, /api/deliveries/<id>
  POST /api/deliveries/<id>/redeliver?to=, …/on-fork?module=
  GET  /api/dead?after=&limit=, /api/dead/<id>
  POST /api/dead/<id>/redrive|drop, /api/dead/<id>,<id>…/on-fork?module=
  GET  /api/news?class=&name=      lines of JSON, as things happen

Examples:
  agents console
  agents console --rerun src/server.ts
  agents console --nats nats://nats:4222 --hostname 0.0.0.0 --port 8790`,
    )
    .action((given: Given) =>
      withPorts(context, given, (ports, target) =>
        console({ ports, target }, joins, terminal, {
          hostname: given.hostname,
          port: given.port,
          publicHost: given.publicHost || undefined,
          token: givenToken(terminal, given),
          modules: given.rerun ?? [],
          dataFolder: resolve(terminal.cwd, given.data),
          log: joins.log({ level: "info", format: terminal.interactive ? "text" : "json" }),
        }),
      ),
    );
}

/** Serves until a signal. Throws `CliError` for a short token; rejects with `ListenFailed`. */
async function console(
  { ports, target }: { readonly ports: ReadPorts; readonly target: Target },
  joins: Pick<Joins, "serveConsole" | "runSelf"> & { readonly time: TimeShape },
  terminal: Terminal,
  { hostname, port, publicHost, log, modules, dataFolder, ...given }: ConsoleOptions,
): Promise<void> {
  if (given.token !== undefined && given.token.length < TOKEN_MIN)
    throw usage(`The console's token is too short. It needs at least ${TOKEN_MIN} characters.`);
  const { time } = joins;
  const token = given.token ?? randomBytes(TOKEN_BYTES).toString("base64url");
  const own = ownProcess(joins, target);
  const source = consoleSource({ ports, terminal, time, modules, own, dataFolder });
  const server = await joins.serveConsole(source, { hostname, port, publicHost, token, time, log });
  const signals = stopSignals(joins.time);
  try {
    const url = `http://${hostAndPort(hostname, server.port)}`;
    // A configured token is known to the operator; a generated one is printed nowhere else.
    // Browsers do not send a URL's fragment.
    const open = given.token === undefined ? `${url}/#token=${token}` : `${url}/#token=…`;
    terminal.err(`The console is at ${open}`);
    await signals.stopped;
  } finally {
    signals.release();
    await server.stop();
  }
}

/**
 * Returns the token from the environment or from a file, or undefined if neither is set. No option
 * takes the token itself, because every user of a machine can read the command lines of its
 * processes. Throws `CliError`.
 */
function givenToken(
  { env, cwd }: Pick<Terminal, "env" | "cwd">,
  options: { readonly token?: string; readonly tokenFile?: string },
): string | undefined {
  if (options.token !== undefined)
    throw usage(
      "--token does not exist, because every user of this machine could read it in the process list. Put the token in a file (--token-file <file>) or in the environment (AGENTS_CONSOLE_TOKEN). Without either, one is generated and printed.",
    );
  // An empty variable counts as unset, because a compose file sets variables that its .env omits to
  // nothing.
  const value = env["AGENTS_CONSOLE_TOKEN"] || undefined;
  const file = options.tokenFile || undefined;
  if (file === undefined) return value;
  if (value !== undefined)
    throw usage("AGENTS_CONSOLE_TOKEN and --token-file are both set. Use one of them.");
  try {
    return readFileSync(resolve(cwd, file), "utf8").trim();
  } catch (error) {
    throw usage(`--token-file ${file} can't be read: ${(error as Error).message}`);
  }
}
