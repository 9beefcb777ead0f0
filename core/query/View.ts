/**
 * The view: rows of all agents, made from the journals, for SQL over all of them (`agents query`).
 * It is one SQLite database with the position up to which the journals are in it, kept as a local
 * image (`core/database/Databases`) between uses.
 *
 * 1. Rows and position are saved together or not at all. A killed process leaves those of its last
 *    save, or nothing, and then the view is rebuilt.
 * 2. An event is applied if and only if it comes after the row's last. If it names one before it
 *    that the row has not seen (history was trimmed, or the agent lives again), or can't be
 *    applied, the row is that of the agent rebuilt from what is stored (`rebuildAgent`).
 * 3. `catchUp` reads up to the ends that the journals' streams have when it begins: what was stored
 *    before the call is in what is read after it. Between agents there is no common instant.
 * 4. It reads journals, snapshots and bases. No host and no agent is asked, and none wakes.
 * 5. An agent whose end is its last event has no row, and its bytes in the view are overwritten.
 * 6. A damaged agent does not stop the others: its row stays as it was, and `fault` says what is
 *    damaged. Its next event tries again.
 * 7. The view is never the truth. It is rebuilt if it is of another version or installation, ahead
 *    of the streams, or damaged.
 * 8. A view of an earlier time has each agent's events that were written by then, as `rebuildAgent`
 *    has with `atTimeMs`. Agents whose history of then is trimmed are counted in `trimmed`: their
 *    rows are missing or too old, and the view must not be read.
 */
import * as Data from "effect/Data";
import { addressKey, agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { BackupEntry, JournalStream } from "../../schemas/BackupFile.ts";
import type { ChangeSources } from "../changes/changes.ts";
import {
  LocalImageCorrupt,
  type AgentDatabase,
  type DatabasesShape,
  type ReadOptions,
  type SqlResult,
} from "../database/Databases.ts";
import { HistoryTrimmed } from "../journal/HistoryTrimmed.ts";
import type { AgentRow } from "./AgentRow.ts";
import type { KnownEntry } from "./KnownChanges.ts";
import { lastSeq } from "./RowChange.ts";
import { headOf, keptFrom, rowAfter, rowAt, type RowSources } from "./nextRow.ts";
import { ViewTables } from "./ViewTables.ts";

/** Changes with the tables. */
const VERSION = 1;
interface ViewLimits {
  /** Events between two transactions: a busy agent's row is written once for all of them. */
  readonly batchEvents: number;
  /** Rows in memory, in bytes. Past it they are written, and read again when they change. */
  readonly rowBytesMax: number;
  /** The view is saved when it holds so much in memory: a kill loses what took some seconds. */
  readonly unsavedBytesMax: number;
}

export const VIEW_LIMITS: ViewLimits = {
  batchEvents: 50_000,
  rowBytesMax: 16 * 2 ** 20,
  unsavedBytesMax: 32 * 2 ** 20,
};

/**
 * Bytes of a kept view that its database may hold in memory, with room for one more batch. Further
 * pages are written before the save.
 */
export const VIEW_RESIDENT_BYTES = 2 * VIEW_LIMITS.unsavedBytesMax;

/** Approximate bytes of a row in memory, without its state, error and schedules. */
const ROW_BYTES = 300;
/** Approximate bytes of one schedule of a row. */
const SCHEDULE_BYTES = 300;
/** Events between two progress reports. */
const TELL_EVENTS = 2_000;

interface ViewOptions {
  readonly limits?: ViewLimits;
  /** False: it lives in memory, and is gone when it is closed. Default true. */
  readonly kept?: boolean;
  /** Rule 8: as of this time, milliseconds since the epoch. Never with `kept`. Default: now. */
  readonly atTimeMs?: number;
}

/** The view's file can't be written to its folder. */
export class ViewNotSaved extends Data.TaggedError("ViewNotSaved")<{ readonly message: string }> {}

export interface ViewSources {
  readonly changes: Pick<ChangeSources, "streams"> & {
    /** As `KnownChanges.between`. Known changes are only for a view of now. */
    readonly between: (
      group: number,
      range: { readonly fromSeq: number; readonly toSeq: number },
    ) => AsyncIterable<BackupEntry | KnownEntry>;
  };
  /** What agents are rebuilt from. `databases`: temporary ones. */
  readonly agents: RowSources;
  /** Called now and then, with numbers of events. */
  readonly tell?: (done: number, total: number) => void;
}

/** Which streams are in the view, and up to where, by stream group. */
interface Position {
  readonly created: ReadonlyArray<string>;
  readonly seqs: ReadonlyArray<number>;
}

const NOWHERE: Position = { created: [], seqs: [] };

/** Agents whose history of the wanted time is not kept. */
interface Trimmed {
  readonly agents: number;
  /** One of them. */
  readonly example: AgentId;
  /** The earliest time at which the history of all of them is kept. */
  readonly fromMs: number;
}

export class View {
  private readonly id: AgentId;
  private readonly limits: ViewLimits;
  private readonly kept: boolean;
  private readonly atTimeMs: number;
  private database!: AgentDatabase;
  private tables!: ViewTables;
  private position: Position = NOWHERE;
  /** The position that the file has. */
  private saved: Position = NOWHERE;
  /** Rows in memory: of agents that had events lately. */
  private readonly rows = new Map<string, { readonly id: AgentId; readonly row: AgentRow }>();
  private rowBytes = 0;
  /** Those of them that are not written yet. */
  private readonly changed = new Set<string>();
  /** Events that were read since the last write. */
  private batched = 0;
  /** Ends of agents that were read by this process: their next life follows on them. */
  private readonly ends = new Map<string, AgentRow>();
  /** Rule 8: agents that have an event after the wanted time. They are not read again. */
  private readonly past = new Set<string>();
  private trimmedThen: Trimmed | undefined;

  /** `databases`: those of the view's own folder, or temporary ones for a view that is not kept. */
  constructor(
    private readonly databases: Pick<DatabasesShape, "open" | "discard">,
    namespace: string,
    { limits = VIEW_LIMITS, kept = true, atTimeMs = Infinity }: ViewOptions = {},
  ) {
    this.limits = limits;
    this.kept = kept;
    this.atTimeMs = atTimeMs;
    this.id = agentId("View", namespace);
    this.open();
  }

  get classes(): ReadonlyArray<string> {
    return this.tables.classes;
  }

  /** For each stream group: everything up to this sequence is in it. */
  get seqs(): ReadonlyArray<number> {
    return this.position.seqs;
  }

  /** Nothing is in it: it was just created, or forgotten. */
  get isNew(): boolean {
    return this.position === NOWHERE;
  }

  /** Rule 8; undefined: it has all agents. */
  get trimmed(): Trimmed | undefined {
    return this.trimmedThen;
  }

  /** Runs `read` after `catchUp`. A damaged view is rebuilt, once (7). Rejects as both do. */
  async ask<A>(catchUp: () => Promise<void>, read: () => A): Promise<A> {
    try {
      await catchUp();
      return read();
    } catch (error) {
      if (!(error instanceof LocalImageCorrupt)) throw error;
      this.forget();
      await catchUp();
      return read();
    }
  }

  /** Makes the table of a class that has no agent, so that a question about it has no rows. */
  addClass(className: string): void {
    this.tables.tableOf(className);
    this.commit();
  }

  /**
   * Brings the view up to date (3). Rejects with `BrokerUnavailable`,
   * `LocalImageCorrupt`, `ViewNotSaved`, or SQLite's error where the view has no room.
   */
  async catchUp(sources: ViewSources): Promise<void> {
    const streams = await sources.changes.streams();
    if (!this.isOf(streams)) this.forget();
    const created = streams.map((stream) => stream.created);
    const start = streams.map((_, group) => this.position.seqs[group] ?? 0);
    this.position = { created, seqs: start };
    const total = streams.reduce((sum, { end }, group) => sum + end - start[group]!, 0);
    let done = 0;
    for (const [group, { end }] of streams.entries()) {
      const fromSeq = start[group]! + 1;
      if (fromSeq > end) continue;
      for await (const entry of sources.changes.between(group, { fromSeq, toSeq: end })) {
        const taking = this.take(entry, sources.agents);
        // Most events need nothing from the broker, and there may be a million of them.
        if (taking !== undefined) await taking;
        if (++this.batched % TELL_EVENTS === 0) sources.tell?.(done + entry.seq - fromSeq, total);
        if (this.isFull) this.write(group, entry.seq);
      }
      this.write(group, end);
      done += end - fromSeq;
    }
  }

  /** Saves what `catchUp` has brought (1). Throws `ViewNotSaved`. */
  save(): void {
    const { position } = this;
    if (!this.kept || isSame(position, this.saved)) return;
    this.closeKept();
    this.open();
    if (!isSame(this.position, position))
      throw new ViewNotSaved({
        message:
          "the view can't be saved: check that its folder is writable and that the disk is not full",
      });
  }

  /** As `AgentDatabase.read`. Also throws `LocalImageCorrupt`. */
  read(sql: string, options: ReadOptions): SqlResult {
    return this.database.read(sql, options);
  }

  /** Rule 7: removes all of it. */
  forget(): void {
    this.database.close();
    this.databases.discard(this.id);
    this.ends.clear();
    this.open();
  }

  /** Saves a kept view if its folder can be written, and closes it. */
  close(): void {
    if (this.kept) this.closeKept();
    else this.database.close();
  }

  private open(): void {
    const { database, cached } = this.databases.open(this.id);
    this.database = database;
    this.rows.clear();
    this.rowBytes = 0;
    this.changed.clear();
    this.position = cached === undefined ? NOWHERE : decodePosition(cached.core);
    this.saved = this.position;
    if (cached !== undefined && this.position === NOWHERE) return this.forget();
    try {
      this.tables = new ViewTables(database);
    } catch (error) {
      if (error instanceof LocalImageCorrupt) return this.forget();
      throw error;
    }
    this.commit();
  }

  /** Rule 7. */
  private isOf(streams: ReadonlyArray<JournalStream>): boolean {
    const { created, seqs } = this.position;
    if (this.position === NOWHERE) return true;
    return (
      created.length === streams.length &&
      streams.every(
        (stream, group) => stream.created === created[group] && stream.end >= seqs[group]!,
      )
    );
  }

  /** Rule 2. A promise only where the broker is asked. */
  private take(entry: BackupEntry | KnownEntry, sources: RowSources): Promise<void> | undefined {
    const { id } = entry;
    const seq = "change" in entry ? lastSeq(entry.change) : entry.seq;
    const key = addressKey(id);
    if (this.past.has(key)) return undefined;
    const row = this.rows.get(key)?.row ?? this.ends.get(key) ?? this.tables.get(id);
    if (seq <= row.seq) return undefined;
    const next = this.next(entry, row, sources);
    if (next instanceof Promise)
      return next
        .catch((error: unknown) => this.missed(id, error, sources))
        .then((found) => this.hold(key, id, found));
    this.hold(key, id, next);
    return undefined;
  }

  /** The row with an event; undefined: the event changes nothing, because it is too late (8). */
  private next(
    entry: BackupEntry | KnownEntry,
    row: AgentRow,
    sources: RowSources,
  ): AgentRow | undefined | Promise<AgentRow> {
    const { id } = entry;
    const { atTimeMs } = this;
    if (atTimeMs === Infinity || "change" in entry) return rowAfter(entry, row, sources);
    const head = headOf(entry);
    if ((head?.time ?? entry.storedMs) <= atTimeMs) return rowAfter(entry, row, sources, atTimeMs);
    this.past.add(addressKey(id));
    return (head?.after ?? 0) <= row.seq ? undefined : rowAt(id, atTimeMs, row, sources);
  }

  /** Rule 8: counts an agent whose history is trimmed. Rejects with any other error. */
  private async missed(id: AgentId, error: unknown, sources: RowSources): Promise<undefined> {
    if (!(error instanceof HistoryTrimmed)) throw error;
    const { agents, fromMs } = this.trimmedThen ?? { agents: 0, fromMs: 0 };
    const example = this.trimmedThen?.example ?? id;
    const ownMs = await keptFrom(error, sources);
    this.trimmedThen = { agents: agents + 1, example, fromMs: Math.max(fromMs, ownMs) };
    this.past.add(addressKey(id));
  }

  private hold(key: string, id: AgentId, row: AgentRow | undefined): void {
    if (row === undefined) return;
    const before = this.rows.get(key);
    this.rowBytes += bytesOf(row) - (before === undefined ? 0 : bytesOf(before.row));
    this.rows.set(key, { id, row });
    this.changed.add(key);
    if (row.ended) this.ends.set(key, row);
    else this.ends.delete(key);
  }

  private get isFull(): boolean {
    const { batchEvents, rowBytesMax } = this.limits;
    return this.batched >= batchEvents || this.rowBytes >= rowBytesMax;
  }

  /** Everything up to `seq` of a group was taken. */
  private write(group: number, seq: number): void {
    this.database.transaction(() => {
      for (const key of this.changed) {
        const { id, row } = this.rows.get(key)!;
        this.tables.put(id, row);
      }
    });
    this.commit();
    this.changed.clear();
    this.batched = 0;
    if (this.rowBytes >= this.limits.rowBytesMax) {
      this.rows.clear();
      this.rowBytes = 0;
    }
    const { created, seqs } = this.position;
    this.position = { created, seqs: seqs.with(group, seq) };
    if (this.database.memoryBytes > this.limits.unsavedBytesMax) this.save();
  }

  private commit(): void {
    if (this.database.freeze() !== undefined) this.database.committed();
  }

  /** Rule 1. */
  private closeKept(): void {
    const core = new TextEncoder().encode(JSON.stringify({ v: VERSION, ...this.position }));
    // The file is written again if this number has changed.
    const seq = this.position.seqs.reduce((sum, each) => sum + each, 0) as Sequence;
    this.database.close({ seq, core });
  }
}

const isSame = (a: Position, b: Position): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The approximate memory of a row. */
const bytesOf = ({ state = "", error = "", schedules }: AgentRow): number =>
  ROW_BYTES + state.length + error.length + schedules.size * SCHEDULE_BYTES;

/** `NOWHERE` for one of another version. */
function decodePosition(core: Uint8Array): Position {
  try {
    const { v, created, seqs } = JSON.parse(new TextDecoder().decode(core)) as Position & {
      readonly v: number;
    };
    return v === VERSION ? { created, seqs } : NOWHERE;
  } catch {
    return NOWHERE;
  }
}
