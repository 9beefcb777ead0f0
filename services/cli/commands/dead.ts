/**
 * `agents dead list|show|redrive|drop`: lists, shows, redrives and drops dead letters, the inputs
 * that exhausted their attempts. A redrive stores the input in the inbox again and removes the
 * letter only after that. If it fails in between, the operator repeats it, and the input still runs
 * once.
 */
import { InvalidArgumentError, type Command } from "commander";
import type { StoredDeadLetter } from "../../../core/dead/DeadLetters.ts";
import { inputAgain } from "../../../core/dead/redrive.ts";
import { causeOfEnvelope } from "../../../core/journal/causeOf.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { Sequence } from "../../../schemas/Address.ts";
import { decodeDeadLetter } from "../../../schemas/DeadLetter.ts";
import { CorruptFrame, UnknownVersion } from "../../../schemas/Frame.ts";
import { decodeEnvelope } from "../../../schemas/InboxEnvelope.ts";
import type { Cause } from "../../../schemas/JournalEvent.ts";
import { STORE_TIMEOUT_MS, type ReadPorts } from "../../wiring/Joins.ts";
import { existingClass } from "../agents/findAgent.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withoutSql, type GivenTarget } from "../options/targetOptions.ts";
import { CliError, EXIT_NOT_FOUND, failed, notFound } from "../terminal/CliError.ts";
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

export interface DeadListOptions {
  readonly className: string | undefined;
  readonly json?: boolean | undefined;
  /** Only letters with larger numbers. */
  readonly after?: number;
  readonly limit?: number;
}

export interface DeadOptions {
  readonly ids: ReadonlyArray<number>;
  readonly json?: boolean | undefined;
}

export function addDead(program: Command, context: CommandContext): void {
  const { terminal } = context;
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
  agents dead redrive 7
  agents dead list repo-agent --json | jq .id | xargs agents dead redrive`,
    );
  const part = (name: string, summary: string, example: string, ...agent: "[class]"[]): Command =>
    addTargetOptions(dead.command(name).summary(summary), ...agent)
      .description(summary[0]!.toUpperCase() + summary.slice(1) + ".")
      .addHelpText("after", `\nExample:\n  agents dead ${example}`);
  const eachOf = (name: string, summary: string, run: typeof deadDrop): void => {
    part(name, summary, `${name} 7`)
      .argument("<id...>", "numbers, as shown by agents dead list", readIds)
      .action((ids: ReadonlyArray<number>, given: GivenTarget) =>
        withoutSql(context, given, (ports) => run(ports, terminal, { ids, json: given.json })),
      );
  };

  part("list", "list dead letters, oldest first", "list repo-agent", "[class]").action(
    (className: string | undefined, given: GivenTarget) =>
      withoutSql(context, given, (ports) =>
        deadList(ports, terminal, { className, json: given.json }),
      ),
  );
  eachOf("show", "show a dead letter: the input and the error", deadShow);
  eachOf("redrive", "run an input again, with all its attempts", deadRedrive);
  eachOf("drop", "remove a dead letter for good", deadDrop);
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
  const some = `${count} dead ${count === 1 ? "letter" : "letters"}`;
  terminal.err(count === 0 ? "No dead letters." : some);
}

/** Prints letters with headers and body. Throws `CliError` if one does not exist. */
export const deadShow = (ports: ReadPorts, terminal: Terminal, options: DeadOptions) =>
  each(ports, options, async (letter) => {
    const line = read(letter);
    if (options.json) return terminal.out(JSON.stringify(line));
    terminal.out(describe(line));
    const { headers, body, bodyBase64, url, method } = line.cause ?? {};
    if (url !== undefined) terminal.out(`    ${method ?? "POST"} ${url}`);
    for (const [name, value] of Object.entries(headers ?? {}))
      terminal.out(`    ${name}: ${value}`);
    if (body !== undefined) terminal.out(`\n${body}`);
    if (bodyBase64 !== undefined) terminal.out(`\n(base64) ${bodyBase64}`);
  });

/**
 * Stores the inputs in the inbox again and removes their letters. Throws `CliError` if a letter
 * does not exist or can't be read, or its input can't be stored.
 */
export const deadRedrive = (ports: ReadPorts, terminal: Terminal, options: DeadOptions) =>
  each(ports, options, async (letter) => {
    const { seq, id } = letter;
    let input: Uint8Array;
    try {
      input = inputAgain(letter);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      throw failed(`Dead letter ${seq} can't be read (${error.message}). It can only be dropped.`);
    }
    const signal = AbortSignal.timeout(STORE_TIMEOUT_MS);
    const stored = await ports.inbox.publish(id, input, { signal });
    if (stored._tag !== "Stored")
      throw failed(`Dead letter ${seq} could not be stored in the inbox: ${stored.message}`);
    await ports.deadLetters.remove(seq);
    const done = { id: seq, class: id.class, name: id.name };
    if (options.json) terminal.out(JSON.stringify({ ...done, redriven: true }));
    else terminal.out(`${seq}  ${id.class} ${id.name}: in the inbox again`);
  });

/** Removes letters for good. Throws `CliError` if one does not exist. */
export const deadDrop = (ports: ReadPorts, terminal: Terminal, options: DeadOptions) =>
  each(ports, options, async ({ seq, id }) => {
    await ports.deadLetters.remove(seq);
    const done = { id: seq, class: id.class, name: id.name };
    if (options.json) terminal.out(JSON.stringify({ ...done, dropped: true }));
    else terminal.out(`${seq}  ${id.class} ${id.name}: dropped`);
  });

/**
 * Calls `use` for each letter that exists. Throws after the last one if any was not found or
 * failed.
 */
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

const isUnreadable = (error: unknown): error is CorruptFrame | UnknownVersion =>
  error instanceof CorruptFrame || error instanceof UnknownVersion;

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
    ...(reason === undefined ? [] : [`    error     ${reason}`]),
    ...(unreadable === undefined ? [] : [`    unreadable: ${unreadable}`]),
  ].join("\n");
}
