/**
 * `agents import <file> [--as <name>]`: creates the agent of a file of `agents export` in this
 * installation. Only its journal is written; state, SQL, queue, schedules and history follow by
 * replay.
 *
 * 1. The whole file is read before the first event is written, so that a damaged or truncated one
 *    changes nothing.
 * 2. Each append expects the previous event, so that an existing agent is never overwritten. An
 *    erased agent can be imported again.
 * 3. The timers of its schedules are armed in the broker, and one input activates it, so that
 *    queued items run. An agent whose life has ended is not activated.
 */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { endsLife } from "../../../core/journal/endLife.ts";
import { transplant } from "../../../core/journal/transplant.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { counted } from "../../../schemas/counted.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import {
  AgentFileReader,
  readAgentFileHead,
  type AgentFileEvent,
} from "../../../schemas/AgentFile.ts";
import { CorruptFrame, isUnreadable } from "../../../schemas/Frame.ts";
import { decodeEvent } from "../../../schemas/JournalEvent.ts";
import { readLines } from "../agents/readLines.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { address } from "../agents/findAgent.ts";
import { tellLeftBehind } from "../agents/leftBehind.ts";
import { freePlace, inPart, storeEvent } from "../agents/newJournal.ts";
import { armTimers, wakeAgent } from "../agents/wakeAgent.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { parsed, readName } from "../options/argumentParsers.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed } from "../terminal/CliError.ts";
import { endedBySignal } from "../terminal/stopSignals.ts";
import type { Terminal } from "../terminal/Terminal.ts";

const ADVICE =
  'If an import of it was killed, it is stored in part: erase it ("agents erase"). Otherwise import it under another name (--as), or erase it first.';

interface ImportOptions extends CheckedFile {
  /** Another name; undefined: the name in the file. */
  readonly name: string | undefined;
  readonly json?: boolean | undefined;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly as?: string;
}

export function addImport(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("import"))
    .description(
      "Creates an agent from a file of agents export, in any installation: state, SQL, queue, schedules and history as they were. Refuses if the agent exists. Schedules and queued items are imported too: if the original agent still exists, both run them.",
    )
    .argument("<file>", "the output of agents export")
    .addOption(new Option("--as <name>", "import it under this name").argParser(parsed(readName)))
    .addHelpText(
      "after",
      `
The file is checked before anything is written.

Examples:
  agents import agent.jsonl
  agents import agent.jsonl --as octocat-copy --nats nats://other:4222`,
    )
    .action(async (file: string, { as: name, ...given }: Given) => {
      const checked = await check(resolve(terminal.cwd, file));
      const interrupted = inPart(`${checked.from.class}/${name ?? checked.from.name}`);
      await withPorts(context, given, (ports) =>
        endedBySignal(joins.time, interrupted, () =>
          importAgent(ports, terminal, joins.time, { ...checked, name, json: given.json }),
        ),
      );
    });
}

/** Throws `CliError` if the agent exists. */
async function importAgent(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "id" | "nowMs">,
  { path, from, events, name, json }: ImportOptions,
): Promise<void> {
  const id = name === undefined ? from : address(from.class, name);
  const { seq, epoch } = await freePlace(ports, id, ADVICE);
  let last = seq;
  let end: Uint8Array | undefined;
  await each(path, async ({ data }) => {
    last = await storeEvent(ports, id, transplant(data, { id, epoch }), last);
    end = data;
  });
  const lives = end === undefined || !endsLife(decodeEvent(end).head);
  // A host would start a destroyed agent as a new one.
  const timers = lives ? await armTimers(ports, id) : 0;
  if (lives) await wakeAgent(ports, time, id);
  const done = { class: id.class, name: id.name, events, timers };
  if (json) terminal.out(JSON.stringify(done));
  else
    terminal.out(
      `${addressKey(id)} was imported: ${counted(events, "event")}, ${counted(timers, "timer")} armed.`,
    );
  if (lives) await tellLeftBehind(ports, terminal, { id, atSeq: last, importedFrom: from });
}

interface CheckedFile {
  /** Absolute. */
  readonly path: string;
  readonly from: AgentId;
  readonly events: number;
}

/** Rule 1. Throws `CliError` if the file can't be read or is damaged. */
async function check(path: string): Promise<CheckedFile> {
  let events = 0;
  try {
    const kind = await stat(path);
    if (!kind.isFile() && !kind.isDirectory())
      throw failed(
        `${path} is not a regular file, and nothing was written. A pipe can't be read twice, once to check it: save it as a file first.`,
      );
    const from = await each(path, async ({ data }) => {
      decodeEvent(data);
      events++;
    });
    if (events === 0) throw new CorruptFrame({ message: "it has no event" });
    return { path, from, events };
  } catch (error) {
    if (isUnreadable(error))
      throw failed(`${path} can't be imported, and nothing was written: ${error.message}`);
    if ((error as NodeJS.ErrnoException).code !== undefined)
      throw failed(`${path} can't be read: ${(error as Error).message}`);
    throw error;
  }
}

async function each(path: string, use: (event: AgentFileEvent) => Promise<void>): Promise<AgentId> {
  const reader = new AgentFileReader();
  let id: AgentId | undefined;
  for await (const line of readLines(createReadStream(path))) {
    if (id === undefined) {
      id = readAgentFileHead(line);
      continue;
    }
    const event = reader.read(line);
    if (event !== undefined) await use(event);
  }
  if (id === undefined) throw new CorruptFrame({ message: "it is empty" });
  reader.finish();
  return id;
}
