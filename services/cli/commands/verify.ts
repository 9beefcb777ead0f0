/**
 * `agents verify <backup>`: reads all of a backup and of those that it builds on, and rebuilds
 * every agent as a restore would. It checks that:
 *
 * 1. Files are as they were written, by their numbers of lines and the checksums of files and
 *    frames.
 * 2. No event of an agent is missing, since each names its predecessor.
 * 3. The rebuilt databases are intact (`PRAGMA quick_check`).
 *
 * Shares are divided among several processes, because the work is limited by processor time. Each
 * process rebuilds the agents of a share in rounds, which bounds the agents in memory.
 */
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import type { AgentDatabase, DatabasesShape } from "../../../core/database/Databases.ts";
import { AgentImage } from "../../../core/journal/AgentImage.ts";
import { decodeStored } from "../../../core/journal/decodeStored.ts";
import { replayEvent } from "../../../core/journal/rebuildAgent.ts";
import { counted } from "../../../schemas/counted.ts";
import { addressKey, fnv1a32, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { isUnreadable } from "../../../schemas/Frame.ts";
import {
  checkOthers,
  checkShare,
  readChain,
  shareEvents,
  type BackupChain,
  type CheckedShare,
} from "../agents/backup/backupChain.ts";
import { inParallel } from "../agents/inParallel.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { CliError, failed, usage } from "../terminal/CliError.ts";
import { Progress } from "../terminal/Progress.ts";

/** Agents of one round, each a few kilobytes plus its database. */
const ROUND_AGENTS = 1_000;
/** Slices for each process: progress is visible, and none waits long for the last one. */
const SLICES_EACH = 4;
/** More than any machine that reads backups has processors. */
const JOBS_MAX = 256;

export function addVerify(program: Command, context: CommandContext): void {
  program
    .command("verify")
    .summary("check a backup by rebuilding all agents from it")
    .description(
      "Checks a backup and those that it builds on: that no file has changed, that no event is missing, and that every agent can be rebuilt. Needs no broker, and writes nothing.",
    )
    .argument("<backup>", "folder of a backup")
    .addOption(option.json())
    .addOption(
      new Option("--jobs <count>", "number of processes for a large backup (default: number of processors)") // prettier-ignore
        .argParser((text: string) => option.readWhole(text, 1, JOBS_MAX)),
    )
    .addOption(
      new Option("--slice <n/of>", "for the processes that this command starts").hideHelp(),
    )
    .addHelpText(
      "after",
      `
--json prints {folder, backups, agents, events, damaged: [{class, name, error}]}. The exit code is
1 if anything is damaged.

Examples:
  agents verify /backups/2026-03-01
  nice agents verify /backups/2026-03-01 --jobs 1`,
    )
    .action((folder: string, { json, jobs, slice }: Given) =>
      verify(context, {
        path: resolve(context.terminal.cwd, folder),
        json: json === true,
        jobs: jobs ?? availableParallelism(),
        slice: slice === undefined ? undefined : readSlice(slice),
      }),
    );
}

/** The values that commander parses. */
interface Given {
  readonly json?: boolean;
  readonly jobs?: number;
  readonly slice?: string;
}

/** Every share whose number is `n` modulo `of`. */
interface Slice {
  readonly n: number;
  readonly of: number;
}

function readSlice(text: string): Slice {
  const [n, of] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).slice(1).map(Number);
  if (n === undefined || of === undefined || n >= of)
    throw usage(`--slice ${text}: use n/of, such as 0/8.`);
  return { n, of };
}

interface Damage {
  readonly class: string;
  readonly name: string;
  readonly error: string;
}

interface Found {
  agents: number;
  events: number;
  damaged: Damage[];
}

interface VerifyOptions {
  readonly path: string;
  readonly json: boolean;
  readonly jobs: number;
  /** Undefined: all. */
  readonly slice: Slice | undefined;
}

/** Throws `CliError` if the backup, or an agent in it, is damaged. */
async function verify(
  context: Pick<CommandContext, "joins" | "terminal">,
  { path, json, jobs, slice }: VerifyOptions,
): Promise<void> {
  const { terminal } = context;
  const chain = await reading(path, readChain(path));
  const progress = new Progress(terminal, context.joins.time, "shares verified");
  const slices = Math.min(chain.shares, jobs * SLICES_EACH);
  const found: Found = { agents: 0, events: 0, damaged: [] };
  const tell = (done: number, total: number): void => progress.tell(done, total);
  try {
    if (slice === undefined) await reading(path, checkOthers(chain));
    if (jobs > 1 && slices > 1 && slice === undefined)
      await verifySlices(context, path, { slices, jobs, found, tell });
    else await verifyShares(context, path, chain, { slice, found, tell });
  } finally {
    progress.end();
  }
  const { agents, events, damaged } = found;
  const backups = chain.links.length;
  if (json) terminal.out(JSON.stringify({ folder: path, backups, agents, events, damaged }));
  else for (const each of damaged) terminal.out(`${each.class}/${each.name}: ${each.error}`);
  if (damaged.length > 0)
    throw failed(
      `${damaged.length} of ${counted(agents, "agent")} can't be rebuilt from ${path}. They will not start after a restore.`,
    );
  if (!json)
    terminal.out(
      `${path} is intact: rebuilt ${counted(agents, "agent")} with ${counted(events, "event")} from ${counted(backups, "backup")}.`,
    );
}

interface Verifying {
  readonly found: Found;
  readonly tell: (done: number, total: number) => void;
}

/** In separate processes. */
async function verifySlices(
  { joins }: Pick<CommandContext, "joins">,
  path: string,
  { slices, jobs, found, tell }: Verifying & { readonly slices: number; readonly jobs: number },
): Promise<void> {
  let done = 0;
  await inParallel(Array(slices).keys(), jobs, async (n) => {
    const ran = await joins.runSelf(["verify", path, "--json", "--slice", `${n}/${slices}`], {});
    // Without a result, it could not read the files and has printed the reason.
    if (ran.out === "") throw failed(ran.err.trim());
    const { agents, events, damaged } = JSON.parse(ran.out) as Found;
    found.agents += agents;
    found.events += events;
    found.damaged.push(...damaged);
    tell(++done, slices);
  });
}

/** In this process. */
async function verifyShares(
  { joins }: Pick<CommandContext, "joins">,
  path: string,
  chain: BackupChain,
  { slice = { n: 0, of: 1 }, found, tell }: Verifying & { readonly slice: Slice | undefined },
): Promise<void> {
  const { databases, close } = await joins.openDatabases();
  try {
    for (let share = slice.n; share < chain.shares; share += slice.of) {
      const checked = await reading(path, checkShare(chain, share));
      found.agents += checked.agents;
      found.events += checked.events;
      const rounds = Math.ceil(checked.agents / ROUND_AGENTS);
      for (let round = 0; round < rounds; round++) {
        // Hashed differently than for shares, so that the agents of a share are spread over the
        // rounds.
        const isOfRound = (id: AgentId): boolean =>
          fnv1a32(`${addressKey(id)} in a round`) % rounds === round;
        const part = { share, ends: checked.ends, isOfRound };
        found.damaged.push(...(await rebuild(chain, databases, part)));
      }
      tell(share, chain.shares);
    }
  } finally {
    close();
  }
}

/** Rule 1. Throws `CliError`. */
async function reading<A>(path: string, read: Promise<A>): Promise<A> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof CliError) throw error;
    const known = isUnreadable(error);
    if (!known && (error as NodeJS.ErrnoException).code === undefined) throw error;
    throw failed(`${path} is damaged: ${(error as Error).message}`);
  }
}

interface Rebuilding {
  readonly image: AgentImage;
  readonly database: AgentDatabase;
}

/** Rules 2 and 3, for the agents of one round. */
async function rebuild(
  chain: BackupChain,
  databases: DatabasesShape,
  { share, ends, isOfRound }: Pick<CheckedShare, "ends"> & { readonly share: number; readonly isOfRound: (id: AgentId) => boolean }, // prettier-ignore
): Promise<ReadonlyArray<Damage>> {
  const agents = new Map<string, Rebuilding>();
  const damaged = new Map<string, Damage>();
  const fail = (id: AgentId, error: unknown): void => {
    if (!damaged.has(addressKey(id)))
      damaged.set(addressKey(id), {
        class: id.class,
        name: id.name,
        error: (error as Error).message,
      });
  };
  try {
    for await (const { id, seq, data } of shareEvents(chain, share, ends)) {
      if (!isOfRound(id) || damaged.has(addressKey(id))) continue;
      const known = agents.get(addressKey(id));
      const agent = known ?? { image: new AgentImage(id), database: databases.open(id).database };
      if (known === undefined) agents.set(addressKey(id), agent);
      try {
        replayEvent(agent.image, agent.database, seq as Sequence, decodeStored({ seq, data }));
      } catch (error) {
        if (!isUnreadable(error)) throw error;
        fail(id, error);
      }
    }
    for (const { image, database } of agents.values()) {
      if (database.isEmpty || damaged.has(addressKey(image.id))) continue;
      const found = String(database.query("PRAGMA quick_check(1)", []).rows[0]?.[0]);
      if (found !== "ok") fail(image.id, new Error(`its database is damaged: ${found}`));
    }
  } finally {
    for (const { database } of agents.values()) database.close();
  }
  return [...damaged.values()];
}
