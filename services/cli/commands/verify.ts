/**
 * `agents verify <backup>`: reads a backup, and those that it builds on, whole, and rebuilds every
 * agent from it as a restore would.
 *
 * 1. Files are as they were written: numbers of lines, checksums of files and of each frame.
 * 2. No event of an agent is missing: each names the one before it.
 * 3. The databases that the events make are whole (`PRAGMA quick_check`).
 *
 * Agents are rebuilt in rounds, so that only so many are in memory at once.
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import type { AgentDatabase, DatabasesShape } from "../../../core/database/Databases.ts";
import { AgentImage } from "../../../core/journal/AgentImage.ts";
import { replayEvent } from "../../../core/journal/rebuildAgent.ts";
import { addressKey, fnv1a32, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { CorruptFrame, UnknownVersion } from "../../../schemas/Frame.ts";
import { decodeEvent } from "../../../schemas/JournalEvent.ts";
import { chainEvents, checkChain, type BackupChain } from "../agents/backupChain.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { CliError, failed } from "../terminal/CliError.ts";
import { Progress } from "../terminal/Progress.ts";

/** Agents of one round: a few kilobytes each, and what their databases hold. */
const ROUND_AGENTS = 1_000;

export function addVerify(program: Command, context: CommandContext): void {
  program
    .command("verify")
    .summary("check a backup, and rebuild all agents from it")
    .description(
      "Checks a backup and those that it builds on: that files are as they were written, that no event is missing, and that every agent can be rebuilt. Needs no broker, and writes nothing.",
    )
    .argument("<backup>", "what agents backup has made")
    .addOption(option.json())
    .addHelpText(
      "after",
      `
--json prints {folder, backups, agents, events, damaged: [{class, name, error}]}. The exit code is
1 where anything is damaged.

Example:
  agents verify /backups/2026-03-01`,
    )
    .action((folder: string, { json }: { readonly json?: boolean }) =>
      verify(context, { folder, json: json === true }),
    );
}

interface Damage {
  readonly id: AgentId;
  readonly error: string;
}

/** Throws `CliError` where the backup, or an agent in it, is damaged. */
async function verify(
  { joins, terminal }: CommandContext,
  { folder, json }: { readonly folder: string; readonly json: boolean },
): Promise<void> {
  const path = resolve(terminal.cwd, folder);
  const chain = await checked(path);
  const { databases, close } = await joins.openDatabases();
  const progress = json ? undefined : new Progress(terminal, joins.time);
  try {
    const ids = new Set<string>();
    let events = 0;
    for await (const { id } of chainEvents(chain)) {
      ids.add(addressKey(id));
      events++;
    }
    const rounds = Math.ceil(ids.size / ROUND_AGENTS);
    const damaged: Damage[] = [];
    for (let round = 0; round < rounds; round++) {
      progress?.tell("agents rebuilt", round, rounds);
      const isOfRound = (id: AgentId) => fnv1a32(addressKey(id)) % rounds === round;
      damaged.push(...(await rebuild(chain, databases, isOfRound)));
    }
    const backups = chain.links.length;
    const told = damaged.map(({ id, error }) => ({ class: id.class, name: id.name, error }));
    if (json)
      terminal.out(
        JSON.stringify({ folder: path, backups, agents: ids.size, events, damaged: told }),
      );
    else for (const { id, error } of damaged) terminal.out(`${addressKey(id)}: ${error}`);
    if (damaged.length > 0)
      throw failed(
        `${damaged.length} of ${ids.size} agents can't be rebuilt from ${path}: they will not start where it is restored.`,
      );
    if (!json)
      terminal.out(
        `${path} is whole: ${ids.size} agents with ${events} events, in ${backups} ${backups === 1 ? "backup" : "backups"}, all rebuilt.`,
      );
  } finally {
    close();
  }
}

/** Rule 1. Throws `CliError`. */
async function checked(path: string): Promise<BackupChain> {
  try {
    return await checkChain(path);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const known = error instanceof CorruptFrame || error instanceof UnknownVersion;
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
  isWanted: (id: AgentId) => boolean,
): Promise<ReadonlyArray<Damage>> {
  const agents = new Map<string, Rebuilding>();
  const damaged = new Map<string, Damage>();
  const fail = (id: AgentId, error: unknown): void => {
    if (!damaged.has(addressKey(id)))
      damaged.set(addressKey(id), { id, error: (error as Error).message });
  };
  try {
    for await (const { id, seq, data } of chainEvents(chain)) {
      if (!isWanted(id) || damaged.has(addressKey(id))) continue;
      const known = agents.get(addressKey(id));
      const agent = known ?? { image: new AgentImage(id), database: databases.open(id).database };
      if (known === undefined) agents.set(addressKey(id), agent);
      try {
        replayEvent(agent.image, agent.database, seq as Sequence, decodeEvent(data));
      } catch (error) {
        if (!(error instanceof CorruptFrame || error instanceof UnknownVersion)) throw error;
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
