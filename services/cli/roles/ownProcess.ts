/**
 * Runs a command for the console in a separate process. So a module's code does not run in the
 * console's process and is read again each time, and an operator's SQL does not block that process.
 * A few commands run at a time; others wait for their turn.
 */
import { ConsoleRefusal } from "../../../core/console/ConsoleSource.ts";
import { counted } from "../../../schemas/counted.ts";
import { loginArguments } from "../options/brokerLogin.ts";
import { EXIT_DIFFERS, EXIT_NOT_FOUND, EXIT_OK } from "../terminal/CliError.ts";
import type { Target } from "../../wiring/ReadPorts.ts";
import type { Joins } from "../../wiring/Joins.ts";

/** Each needs one processor and about 100 MB. */
const RUNNING_MAX = 3;
/** More would make people wait longer than they do for a page. */
const WAITING_MAX = 64;

/** Code of a module may never end, such as that of an input which died for that reason. */
const RUN_MINUTES_MAX = 10;
const RUN_MS_MAX = RUN_MINUTES_MAX * 60_000;

/** Runs a command, such as `sql`. Resolves to its lines of JSON, or fails: `ConsoleRefusal`. */
export type OwnProcess = (
  command: string,
  args: ReadonlyArray<string>,
) => Promise<ReadonlyArray<unknown>>;

export function ownProcess(joins: Pick<Joins, "runSelf">, target: Target): OwnProcess {
  const run = runner(joins, target);
  const waiting: Array<() => void> = [];
  let running = 0;
  return async (command, args) => {
    if (running < RUNNING_MAX) running++;
    else if (waiting.length < WAITING_MAX)
      // A command that ends passes its place to the next one.
      await new Promise<void>((resolve) => waiting.push(resolve));
    else
      throw new ConsoleRefusal(
        503,
        `${WAITING_MAX} other requests are waiting. Try again in a moment.`,
      );
    try {
      return await run(command, args);
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}

const runner =
  (
    { runSelf }: Pick<Joins, "runSelf">,
    { natsUrl, login, namespace, archive }: Target,
  ): OwnProcess =>
  async (command, args) => {
    const target = [
      "--namespace",
      namespace,
      ...(archive === undefined ? [] : ["--archive", archive]),
      ...loginArguments(login),
    ];
    // The URL may contain a password, and all users of the machine can see a command line.
    const given = [...command.split(" "), ...target, ...args];
    const ran = await runSelf(given, { NATS_URL: natsUrl }, RUN_MS_MAX);
    if (ran.tooLarge === true)
      throw new ConsoleRefusal(400, `The output of agents ${command} is too large. Request less.`);
    if (ran.late === true)
      throw new ConsoleRefusal(503, `agents ${command} had no result after ${RUN_MINUTES_MAX} minutes, and was ended. Run it in a terminal.`); // prettier-ignore
    if (ran.signal !== undefined)
      throw new ConsoleRefusal(
        503,
        `agents ${command} was ended by ${ran.signal} before it had a result. Try again.`,
      );
    const lines = ran.out.split("\n").filter((line) => line !== "");
    if (ran.code !== EXIT_OK && ran.code !== EXIT_DIFFERS)
      throw new ConsoleRefusal(
        ran.code === EXIT_NOT_FOUND ? 404 : 400,
        reasonOf(ran.err) + (lines.length === 0 ? "" : ` (agents ${command} had ${counted(lines.length, "result")} by then)`), // prettier-ignore
      );
    return lines.map((line) => JSON.parse(line) as unknown);
  };

/** Returns the error that ended a command (`commandLine`). Warnings and progress come before it. */
const reasonOf = (err: string): string =>
  err
    .split(/^agents: /m)
    .at(-1)!
    .trim();
