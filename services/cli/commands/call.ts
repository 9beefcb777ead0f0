/**
 * `agents call <class> <name> <method> [json…]`: calls a public method as a stub does. The host
 * that owns the agent runs it.
 */
import { Option, type Command } from "commander";
import { CallTimedOut } from "../../../core/call/AgentUnreachable.ts";
import { addressKey } from "../../../schemas/Address.ts";
import type { CallReply, RemoteError } from "../../../schemas/bus/CallReply.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { address, resolveClass } from "../agents/findAgent.ts";
import { notReached } from "../agents/notReached.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { parsed, readJson } from "../options/argumentParsers.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withoutSql, type GivenTarget } from "../options/targetOptions.ts";
import { failed } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface CallOptions {
  readonly className: string;
  readonly name: string;
  readonly method: string;
  readonly args: ReadonlyArray<unknown>;
  readonly json?: boolean | undefined;
  /** Seconds. */
  readonly timeout: number;
  /** The key of a call of a durable method. */
  readonly key?: string | undefined;
}

type Given = GivenTarget & Pick<CallOptions, "timeout" | "key">;

/** Longer than a host takes to die and another to take over. */
const CALL_TIMEOUT_SECONDS = 30;
const DAY_SECONDS = 86_400;

export function addCall(program: Command, context: CommandContext): void {
  const { terminal } = context;
  addTargetOptions(program.command("call"), "<class>", "<name>")
    .description(
      "Calls a public method of an agent, as another agent's stub would, and prints its result. Activates the agent if it is not in memory, and creates it if it does not exist.",
    )
    .argument("<method>", "name of the method")
    .argument("[json...]", "its arguments, each as JSON", readNextJson)
    .addOption(
      new Option("--timeout <seconds>", "give up after this time")
        .default(CALL_TIMEOUT_SECONDS)
        .argParser((text: string) => option.readWhole(text, 1, DAY_SECONDS)),
    )
    .option("--key <text>", "for a durable method: calls with the same key run once")
    .addHelpText(
      "after",
      `
--json prints the result as one line of JSON, or null if there is none. An error that the method
throws is printed on stderr, with exit code 1. Put -- before arguments that begin with a dash.

Examples:
  agents call repo-agent octocat~hello-world listEvents 5
  agents call Greeter front-door greet '"Ada"' '{"loud": true}'
  agents call Counter hits add -- -1`,
    )
    .action((className: string, name: string, method: string, args: unknown[] = [], given: Given) =>
      withoutSql(context, given, (ports) =>
        call(ports, terminal, { ...given, className, name, method, args }),
      ),
    );
}

/** Prints the result as JSON. Throws `CliError` without an answer, and the method's error. */
async function call(ports: ReadPorts, terminal: Terminal, options: CallOptions): Promise<void> {
  const { method, args, key } = options;
  const id = address(await resolveClass(ports.journal, options.className), options.name);
  let reply: CallReply;
  try {
    const what =
      key === undefined ? ({ kind: "rpc" } as const) : ({ kind: "durable", key } as const);
    const bounds = { deadlineMs: options.timeout * 1000, repeatable: key !== undefined };
    ({ reply } = await ports.calls.call(id, { ...what, method, args }, bounds));
  } catch (error) {
    if (error instanceof CallTimedOut) throw failed(`${error.message} (--timeout waits longer)`);
    throw notReached(error, 'Is a host running ("agents dev", "agents host")?');
  }
  if (reply.kind === "error")
    throw failed(`${addressKey(id)}.${method}(): ${describeError(reply)}`);
  if (reply.kind !== "result") throw new Error(`unexpected ${reply.kind} reply`);
  if (options.json) terminal.out(JSON.stringify(reply.value ?? null));
  else if (reply.value === undefined) terminal.err("Done. It returned nothing.");
  else terminal.out(JSON.stringify(reply.value, undefined, 2));
}

const jsonOf = parsed(readJson);
const readNextJson = (text: string, before: ReadonlyArray<unknown> = []): ReadonlyArray<unknown> =>
  [...before, jsonOf(text)]; // prettier-ignore

function describeError({ name, message, cause }: RemoteError): string {
  const text = `${name}: ${message}`;
  if (cause === undefined) return text;
  const because = "error" in cause ? describeError(cause.error) : JSON.stringify(cause.value);
  return `${text}\n  caused by ${because}`;
}
