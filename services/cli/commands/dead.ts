/**
 * `agents dead list|show|redrive|drop`: lists, shows, redrives and drops dead letters, the inputs
 * that exhausted their attempts. A redrive stores the input in the inbox again and removes the
 * letter only after that. If it fails in between, the operator repeats it, and the input still runs
 * once. With `--on-fork`, inputs run on forks first (`agents/onFork`).
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import type { StoredDeadLetter } from "../../../core/dead/DeadLetters.ts";
import { inputAgain } from "../../../core/dead/redrive.ts";
import { causeOfEnvelope } from "../../../core/journal/causeOf.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { counted } from "../../../schemas/counted.ts";
import type { Sequence } from "../../../schemas/Address.ts";
import { decodeDeadLetter } from "../../../schemas/DeadLetter.ts";
import { isUnreadable } from "../../../schemas/Frame.ts";
import { decodeEnvelope } from "../../../schemas/InboxEnvelope.ts";
import type { Cause } from "../../../schemas/JournalEvent.ts";
import { STORE_TIMEOUT_MS, type ReadPorts } from "../../wiring/ReadPorts.ts";
import { existingClass } from "../agents/findAgent.ts";
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
  type OnForkParts,
} from "../agents/onFork.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { parsed, readClass } from "../options/argumentParsers.ts";
import * as option from "../options/options.ts";
import {
  addTargetOptions,
  withoutSql,
  withPorts,
  type GivenTarget,
} from "../options/targetOptions.ts";
import { CliError, EXIT_NOT_FOUND, failed, notFound, usage } from "../terminal/CliError.ts";
import { printInput } from "../terminal/printInput.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** One line of `--json`. */
export interface DeadLetterLine {
  readonly id: number;
  readonly class: string;
  readonly name: string;
  /** ISO 8601: when the input was dead-lettered. */
  readonly time?: string;
  readonly reason?: string;
  readonly host?: string;
  /** The input. `list` leaves headers and body out. */
  readonly cause?: Cause;
  /** Why the letter can't be read. Such a letter can only be dropped. */
  readonly unreadable?: string;
}

interface DeadListOptions {
  readonly className: string | undefined;
  readonly json?: boolean | undefined;
  /** Only letters with larger numbers. */
  readonly after?: number;
  readonly limit?: number;
}

interface DeadOptions {
  readonly ids: ReadonlyArray<number>;
  readonly json?: boolean | undefined;
}

export function addDead(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  const dead = program
    .command("dead")
    .description(
      "Dead letters are webhooks, queue items, runs of schedules and outgoing webhooks whose last attempt failed. They are kept, with the error, until an operator redrives or drops them.",
    )
    .addHelpText(
      "after",
      `
Examples:
  agents dead list
  agents dead show 7
  agents dead redrive 7 --on-fork
  agents dead redrive 7
  agents dead redrive --all repo-agent --on-fork --module src/fixed.ts --yes`,
    );
  const part = (name: string, summary: string, examples: string, ...agent: "[class]"[]): Command =>
    addTargetOptions(dead.command(name).summary(summary), ...agent)
      .description(thirdPerson(summary))
      .addHelpText("after", examples);
  const example = (text: string): string => `\nExample:\n  agents dead ${text}`;
  const numbers = "numbers, as shown by agents dead list";
  const eachOf = (name: string, summary: string, run: typeof deadDrop): void => {
    part(name, summary, example(`${name} 7`))
      .argument("<id...>", numbers, readIds)
      .action((ids: ReadonlyArray<number>, given: GivenTarget) =>
        withoutSql(context, given, (ports) => run(ports, terminal, { ids, json: given.json })),
      );
  };

  part("list", "list dead letters, oldest first", example("list repo-agent"), "[class]").action(
    (className: string | undefined, given: GivenTarget) =>
      withoutSql(context, given, (ports) =>
        deadList(ports, terminal, { className, json: given.json }),
      ),
  );
  eachOf("show", "show a dead letter: the input and the error", deadShow);
  addForkOptions(part("redrive", "run inputs again, with all their attempts", REDRIVE_HELP))
    .argument("[id...]", numbers, readIds)
    .addOption(
      new Option("--all [class]", "all dead letters, or all of one class").argParser(
        parsed(readClass),
      ),
    )
    .action((ids: ReadonlyArray<number> | undefined, given: GivenRedrive) => {
      const wanted = { ids: ids ?? [], all: given.all, json: given.json };
      if (wanted.ids.length > 0 === (wanted.all !== undefined))
        throw usage('Specify numbers of dead letters, or --all. "agents dead list" lists them.');
      if (!isOnFork(given))
        return withoutSql(context, given, (ports) => redriveWanted(ports, terminal, wanted));
      return withPorts(context, given, (ports, target) =>
        deadOnFork({ ports, target, terminal, joins }, { ...given, ...wanted }),
      );
    });
  eachOf("drop", "remove a dead letter for good", deadDrop);
}

/** The description of a command: `list dead letters` becomes `Lists dead letters.` */
const thirdPerson = (summary: string): string =>
  `${summary.replace(/^(\w)(\w*)/, (_, first: string, rest: string) => `${first.toUpperCase()}${rest}s`)}.`;

const REDRIVE_HELP = `${onForkHelp(INPUTS_GO_ON)}

--json prints one object a line: {id, class, name, redriven: true}; with --on-fork before these
  {id, class, name, seq, outcome: "done"|"fails", why?, differences, sends}

Examples:
  agents dead redrive 7 9
  agents dead redrive 7 --on-fork --module src/fixed.ts
  agents dead redrive --all repo-agent --on-fork --yes`;

/** The values that commander parses. */
interface GivenRedrive extends GivenTarget, GivenFork {
  readonly all?: string | true;
}

interface Wanted extends DeadOptions {
  /** True: of all classes. */
  readonly all: string | true | undefined;
}

function readIds(text: string, before: ReadonlyArray<number> = []): ReadonlyArray<number> {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError("Use the number of a dead letter.");
  return [...before, option.readWhole(text, 1, Number.MAX_SAFE_INTEGER)];
}

/** Prints the dead letters of one class, or of all if `className` is undefined, oldest first. */
export async function deadList(
  { deadLetters, journal }: ReadPorts,
  terminal: Terminal,
  { className, json, after = 0, limit = Infinity }: DeadListOptions,
): Promise<void> {
  const stored = className === undefined ? undefined : await existingClass(journal, className);
  let count = 0;
  for await (const letter of deadLetters.list(stored)) {
    if (letter.seq <= after) continue;
    if (count >= limit) break;
    count++;
    const line = read(letter);
    terminal.out(json ? JSON.stringify(withoutContent(line)) : describe(line));
  }
  if (json) return;
  const some = counted(count, "dead letter");
  terminal.err(count === 0 ? "No dead letters." : some);
}

/** Prints letters with headers and body. Throws `CliError` if one does not exist. */
export const deadShow = (ports: ReadPorts, terminal: Terminal, options: DeadOptions) =>
  each(ports, options, async (letter) => {
    const line = read(letter);
    if (options.json) return terminal.out(JSON.stringify(line));
    terminal.out(describe(line));
    if (line.cause !== undefined) printInput(terminal, line.cause);
  });

/**
 * Stores the inputs in the inbox again and removes their letters. Throws `CliError` if a letter
 * does not exist or can't be read, or its input can't be stored.
 */
export const deadRedrive = (ports: ReadPorts, terminal: Terminal, options: DeadOptions) =>
  each(ports, options, async (letter) => {
    const { seq, id } = letter;
    const input = readAgain(letter);
    const signal = AbortSignal.timeout(STORE_TIMEOUT_MS);
    const stored = await ports.inbox.publish(id, input, { signal });
    if (stored._tag !== "Stored")
      throw failed(`Dead letter ${seq} could not be stored in the inbox: ${stored.message}`);
    await ports.deadLetters.remove(seq);
    const done = { id: seq, class: id.class, name: id.name };
    if (options.json) terminal.out(JSON.stringify({ ...done, redriven: true }));
    else terminal.out(`${seq}  ${id.class} ${id.name}: in the inbox again`);
  });

/** As `deadRedrive`. */
async function redriveWanted(ports: ReadPorts, terminal: Terminal, wanted: Wanted): Promise<void> {
  const ids = await idsOf(ports, wanted);
  await deadRedrive(ports, terminal, { ids, json: wanted.json });
  if (ids.length === 0 && wanted.json !== true) terminal.err("No dead letters.");
}

/** Those that exist now: a letter whose input dies once more is another one. */
async function idsOf(
  { journal, deadLetters }: ReadPorts,
  { ids, all }: Wanted,
): Promise<ReadonlyArray<number>> {
  if (all === undefined) return [...new Set(ids)];
  const className = all === true ? undefined : await existingClass(journal, all);
  const found: number[] = [];
  for await (const { seq } of deadLetters.list(className)) found.push(seq);
  return found;
}

/**
 * Runs the inputs on forks and, with `yes`, redrives those that did not fail. Throws `CliError` as
 * `deadRedrive`, and if any failed.
 */
async function deadOnFork(parts: OnForkParts, wanted: Wanted & GivenFork): Promise<void> {
  const { ports, terminal } = parts;
  const { module, yes, json = false } = wanted;
  const ids = await idsOf(ports, wanted);
  checkForkCount(ids.length);
  const inputs: ForkInput[] = [];
  const wrong = await each(ports, { ids }, async (letter) => {
    const envelope = decodeEnvelope(readAgain(letter));
    const { key, job } = envelope.head;
    inputs.push({ label: letter.seq, id: letter.id, envelope, ranAs: job?.key ?? key });
  }).catch((error: unknown) => {
    if (error instanceof CliError) return error;
    throw error;
  });
  const done = await runOnForks(parts, { module, json }, inputs);
  const good = ids.filter((id) => done.has(id));
  const fails = inputs.length - good.length;
  if (yes === true) await deadRedrive(ports, terminal, { ids: good, json });
  else if (!json && good.length > 0)
    terminal.err("On forks only: nothing was redriven. Add --yes to redrive what did not fail.");
  if (ids.length === 0 && !json) terminal.err("No dead letters.");
  if (wrong !== undefined) throw wrong;
  if (fails > 0) throw failedOnForks(fails, inputs.length, "not redriven");
}

/** The input as the inbox takes it. Throws `CliError` for one that can't be read. */
function readAgain(letter: StoredDeadLetter): Uint8Array {
  try {
    return inputAgain(letter);
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    throw failed(
      `Dead letter ${letter.seq} can't be read (${error.message}). It can only be dropped.`,
    );
  }
}

/** Removes letters for good. Throws `CliError` if one does not exist. */
export const deadDrop = (ports: ReadPorts, terminal: Terminal, options: DeadOptions) =>
  each(ports, options, async ({ seq, id }) => {
    await ports.deadLetters.remove(seq);
    const done = { id: seq, class: id.class, name: id.name };
    if (options.json) terminal.out(JSON.stringify({ ...done, dropped: true }));
    else terminal.out(`${seq}  ${id.class} ${id.name}: dropped`);
  });

/** Calls `use` for each existing letter. Throws at the end if any was not found or failed. */
async function each(
  { deadLetters }: ReadPorts,
  { ids }: DeadOptions,
  use: (letter: StoredDeadLetter) => Promise<void>,
): Promise<void> {
  const wrong: CliError[] = [];
  for (const id of ids) {
    try {
      const letter = await deadLetters.get(id as Sequence);
      if (letter === undefined)
        throw notFound(`There is no dead letter ${id}. "agents dead list" lists the dead letters.`);
      await use(letter);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      wrong.push(error);
    }
  }
  if (wrong.length === 0) return;
  const worst = wrong.find(({ exitCode }) => exitCode !== EXIT_NOT_FOUND) ?? wrong[0]!;
  const message = wrong.map((error) => error.message).join("\n");
  throw new CliError({ message, exitCode: worst.exitCode });
}

function read({ seq, id, data }: StoredDeadLetter): DeadLetterLine {
  const known = { id: seq, class: id.class, name: id.name };
  try {
    const { head, input } = decodeDeadLetter(data);
    const told = { time: new Date(head.time).toISOString(), reason: head.reason, host: head.host };
    try {
      const { head: envelope, body } = decodeEnvelope(input);
      const cause = causeOfEnvelope(envelope, body, head.seq as Sequence, 1);
      return { ...known, ...told, cause };
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      return { ...known, ...told, unreadable: error.message };
    }
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return { ...known, unreadable: error.message };
  }
}

function withoutContent({ cause, ...line }: DeadLetterLine): DeadLetterLine {
  if (cause === undefined) return line;
  const { headers: _headers, body: _body, bodyBase64: _bytes, ...about } = cause;
  return { ...line, cause: about };
}

function describe({ id, cause, reason, unreadable, ...line }: DeadLetterLine): string {
  const what = [cause?.kind, cause?.provider, cause?.type].filter((part) => part !== undefined);
  return [
    `${id}  ${line.class} ${oneLine(line.name)}  ${line.time ?? "?"}  ${oneLine(what.join(" ")) || "unreadable"}`,
    ...(cause?.id === undefined ? [] : [`    input     ${oneLine(cause.id)}`]),
    ...(reason === undefined ? [] : [`    error     ${oneLine(reason)}`]),
    ...(unreadable === undefined ? [] : [`    unreadable: ${oneLine(unreadable)}`]),
  ].join("\n");
}
