/**
 * Writes an agent's events: what a commit is, from the turns' records to the event that is applied,
 * and the event that ends the agent's life. `Committer` decides what goes into a batch and when,
 * and releases its outputs afterwards.
 *
 * 1. Everything in it goes into one event, or into none (I4).
 * 2. Triggers of schedules and queue items are stored before the event (`CommitTriggers`).
 * 3. An input that an event leaves begun and not done is stored in the inbox before the event
 *    (`DirectInput`).
 */
import type { AgentDatabase } from "../database/Databases.ts";
import type { AppendResult } from "../journal/Journal.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { applyEvent } from "../journal/applyEvent.ts";
import { claimEmpty, type JournalOwner } from "../journal/emptyJournal.ts";
import { encodeCommit, encodeDestroyed, isOver as isInputOver } from "../journal/encodeCommit.ts";
import { takeRecord, takeSteps, type Batch, type TurnRecord } from "./Batch.ts";
import type { CommitTriggers } from "./CommitTriggers.ts";
import type { Holds } from "./Holds.ts";
import type { Turn } from "./Turn.ts";

export interface CommitterHost extends JournalOwner {
  readonly database: AgentDatabase;
  /**
   * The triggers that the agent's schedules and queue need at the broker with the next event, which
   * is that of `turns`. Called just before that event.
   */
  readonly takeTriggers: (turns: ReadonlySet<Turn>) => CommitTriggers | undefined;
  /** True if the lease is held now, by the local clock. Else resolves to whether it was renewed. */
  readonly isStillOurs: () => true | Promise<boolean>;
  /** Puts an envelope into the agent's inbox. Rejects if it may not be stored there. */
  readonly storeInput: (data: Uint8Array) => Promise<Sequence>;
  /** An event is stored and applied. */
  readonly onCommitted: (bytes: number, turns: ReadonlyArray<Turn>) => void;
  /** An append was refused or its outcome is unknown: nothing more runs. */
  readonly onFailed: (outcome: AppendResult["_tag"] | "Defect", error: unknown) => void;
}

/** Undefined: stored, or the agent was lost meanwhile (`Commits.isOver`). */
export type Written = Promise<WriteFailure | undefined>;

export interface WriteFailure {
  readonly outcome: AppendResult["_tag"] | "Defect";
  readonly error: unknown;
}

/** What the commits of an agent share. */
export interface Commits {
  readonly host: CommitterHost;
  readonly holds: Holds;
  /** Nothing is written any more. Changes while an event is stored. */
  readonly isOver: boolean;
}

/** What one event holds. */
interface Content {
  readonly records: ReadonlyArray<TurnRecord>;
  readonly triggers: CommitTriggers | undefined;
  readonly frozen: { readonly delta: Uint8Array; readonly pages: number } | undefined;
}

/** Writes a batch with everything that was written. */
export function writeBatch(commits: Commits, batch: Batch): Written {
  const { host } = commits;
  const triggers = host.takeTriggers(batch.turns);
  const frozen = host.database.dirty ? host.database.freeze() : undefined;
  const changed = { pagesChanged: frozen !== undefined, jobsChanged: triggers !== undefined };
  const records: TurnRecord[] = [];
  for (const turn of batch.turns) {
    const record = takeRecord(turn, changed);
    if (record !== undefined) records.push(record);
  }
  return append(commits, batch, { records, triggers, frozen });
}

/** Writes a batch that has nothing but results of steps. */
export function writeSteps(commits: Commits, batch: Batch): Written {
  const records: TurnRecord[] = [];
  for (const turn of batch.turns) {
    const record = takeSteps(turn);
    if (record !== undefined) records.push(record);
  }
  return append(commits, batch, { records, triggers: undefined, frozen: undefined });
}

/** Writes the event that ends the agent's life, and completes the input of this turn. */
export async function writeDestroyed(
  commits: Commits,
  turn: Turn,
): Promise<WriteFailure | undefined> {
  const { host } = commits;
  const { image, time } = host;
  const commit = encodeDestroyed({
    image,
    host: host.host,
    epoch: host.epoch,
    timeMs: time.nowMs(),
    eventId: time.id(),
    turn,
  });
  const result = await host.append(commit, image.seq);
  if (commits.isOver) return undefined;
  if (result._tag !== "Stored") return { outcome: result._tag, error: result };
  applyEvent(image, result.seq, commit.head);
  return undefined;
}

async function append(
  commits: Commits,
  batch: Batch,
  { records, triggers, frozen }: Content,
): Promise<WriteFailure | undefined> {
  const { host, holds } = commits;
  const { image, database, time } = host;
  const isFirst = image.seq === 0;
  const unstored = unstoredInputs(records);
  const changes = frozen !== undefined || records.some(({ state }) => state !== undefined);
  const part = changes && holds.isPart(batch);
  if (triggers !== undefined) await triggers.before();
  if (unstored !== undefined) {
    const error = await storeInputs(host, unstored);
    if (error !== undefined) return { outcome: "Unknown", error };
  }
  if (commits.isOver) return undefined;
  if (records.length > 0 || frozen !== undefined || triggers !== undefined) {
    const commit = encodeCommit({
      image,
      host: host.host,
      epoch: host.epoch,
      timeMs: time.nowMs(),
      eventId: time.id(),
      turns: records,
      frozen,
      schedules: triggers?.schedules,
      queue: triggers?.queue,
      part,
    });
    const result = await host.append(commit, image.seq);
    if (commits.isOver) return undefined;
    if (result._tag !== "Stored") return { outcome: result._tag, error: result };
    if (frozen !== undefined) database.committed();
    applyEvent(image, result.seq, commit.head, commit.state);
    holds.applied(batch, { open: image.parts !== undefined, part });
    host.onCommitted(commit.data.length, [...batch.turns]);
    triggers?.after?.();
  } else if (isFirst && batch.fence) {
    const result = await claimEmpty(host);
    if (commits.isOver) return undefined;
    if (result._tag !== "Stored") return { outcome: result._tag, error: result };
  }
  // An owner's first event is only reported if the lease was certainly held when it was stored.
  const isOurs = !isFirst || image.seq === 0 || host.isStillOurs();
  return isOurs === true || (await isOurs) ? undefined : { outcome: "Unknown", error: LOST };
}

/** Rule 3: the records that would mark an input as begun although it is not stored yet. */
function unstoredInputs(records: ReadonlyArray<TurnRecord>): TurnRecord[] | undefined {
  let unstored: TurnRecord[] | undefined;
  for (const record of records)
    if (record.turn.unstored && !isInputOver(record.turn, record.outcome))
      (unstored ??= []).push(record);
  return unstored;
}

/** Rule 3. Resolves to the error of an input that could not be stored. */
async function storeInputs(
  host: CommitterHost,
  records: ReadonlyArray<TurnRecord>,
): Promise<unknown> {
  try {
    for (const { turn } of records) await turn.storeInput((data) => host.storeInput(data));
    return undefined;
  } catch (error) {
    return error ?? new Error("an input could not be stored");
  }
}

const LOST = {
  message: "the shard was lost while the first event was stored; its outputs are dropped",
};
