/**
 * The durable streams of an agent in memory: gathers chunks, stores them with the agent's commits,
 * and sends stored ones to readers.
 *
 * 1. Chunks gather for `GATHER_MS`, or up to `GATHER_SIZE`; then they are one row, in a commit that
 *    they share with whatever else was written. The end of the turn that wrote them, its calls to
 *    the outside and the end of the stream store them at once.
 * 2. Readers see stored chunks only (the output gate).
 * 3. Sizes are bounded: of a chunk, a stream, and all streams of an agent. A stream is
 *    removed `keep` after its last write, whether it has ended or its writer has gone.
 * 4. A stream that is begun under the key of an earlier one has another id, and its chunks are
 *    numbered from 1 again.
 *
 * Written to by `DurableStream`, read by `streamResponse` and `StreamReaders`; part of `Keeping`.
 */
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { StepScope, Turn } from "../turn/Turn.ts";
import type { WriteLimits } from "../turn/WriteLimits.ts";
import { messageOf } from "../errors/thrown.ts";
import type { Cursor } from "./Cursor.ts";
import { StreamOver, StreamTooLarge, TooManyStreams } from "./errors.ts";
import type { ExpiryAlarm } from "./ExpiryAlarm.ts";
import type { Look } from "./Look.ts";
import { INSERT_CHUNKS, StreamTable, type StreamRow } from "./StreamTable.ts";

/**
 * At most ten commits a second for each agent, however fast a model writes; readers hardly notice.
 */
const GATHER_MS = 100;
/** UTF-16 units of JSON that are stored without waiting for the rest of the time. */
const GATHER_SIZE = 16 * 1024;
/** UTF-16 units of one chunk's JSON: a frame to a client holds it well within the broker's. */
export const CHUNK_SIZE_MAX = 64 * 1024;
/** Streams of one agent at most. Those that ended first are removed first. */
const STREAMS_MAX = 1000;
/** Streams that stay in memory without a writer or reader. */
const IDLE_MAX = 64;

export interface StreamSettings {
  /** UTF-16 units of all chunks' JSON. */
  readonly sizeMax: number;
  /** Milliseconds. */
  readonly keepMs: number;
}

export interface StreamsAgent extends Pick<
  AgentTurns,
  "assertRunning" | "committer" | "database" | "discarded" | "log" | "time" | "turn" | "newTurn"
> {
  readonly currentStep: StepScope | undefined;
  inTurn<A>(turn: Turn, f: () => A): A;
  readonly parts: { readonly limits: Pick<WriteLimits, "checkState"> };
}

interface Live {
  /** As written; undefined for an unknown stream. */
  row: StreamRow | undefined;
  /** As the table has it. */
  tabled: StreamRow | undefined;
  /** As committed. */
  stored: StreamRow | undefined;
  /** JSON texts of chunks that no row contains yet. */
  pending: string[];
  pendingSize: number;
  /** Earlier streams of the key, to be removed with the next commit. */
  removed: StreamRow[];
  readonly waiters: Set<() => void>;
}

export class Streams {
  private readonly table: StreamTable;
  private readonly live = new Map<string, Live>();
  private readonly dirty = new Map<string, Live>();
  /** Turns that wrote since the last store. Durable turns store at their end anyway. */
  private writers = new Set<Turn>();
  private cancelGather: (() => void) | undefined;

  constructor(
    private readonly agent: StreamsAgent,
    private readonly alarm: ExpiryAlarm,
  ) {
    this.table = new StreamTable(agent.database);
  }

  /** Whether something was written that no commit has taken. */
  get unstored(): boolean {
    return this.dirty.size > 0;
  }

  /** The stream as its writer sees it. */
  get(key: string): StreamRow | undefined {
    return this.of(key).row;
  }

  /** Chunks after this number, those that are not stored yet included. */
  chunks(key: string, after: number): unknown[] {
    const { row, pending } = this.of(key);
    if (row === undefined) return [];
    const found: unknown[] = [];
    let at = after;
    for (;;) {
      const rows = this.table.after(row.id, at);
      if (rows.length === 0) break;
      for (const each of rows) {
        found.push(...each.chunks.slice(Math.max(0, each.chunks.length - (each.last - at))));
        at = each.last;
      }
    }
    const first = row.sequence - pending.length;
    for (const text of pending.slice(Math.max(0, at - first))) found.push(JSON.parse(text));
    return found;
  }

  /** Begins the stream if needed, and appends one chunk of JSON. Returns its number. */
  write(key: string, text: string, settings: StreamSettings): number {
    if (text.length > CHUNK_SIZE_MAX)
      throw new RangeError(
        `a chunk of the stream "${key}" is ${text.length} characters of JSON; the limit is ${CHUNK_SIZE_MAX}: write it in parts`,
      );
    const live = this.open(key, settings);
    const row = live.row!;
    if (row.size + text.length > settings.sizeMax)
      throw new StreamTooLarge({ key, sizeMax: settings.sizeMax });
    const sequence = row.sequence + 1;
    live.pending.push(text);
    live.pendingSize += text.length;
    this.change(live, { ...row, sequence, size: row.size + text.length });
    if (live.pendingSize >= GATHER_SIZE) this.storeSoon();
    return sequence;
  }

  /** Begins the stream if needed. */
  begin(key: string, settings: StreamSettings): void {
    this.open(key, settings);
    this.agent.committer.touch(this.writer());
  }

  /** Ends the stream, and begins it first if needed. Does nothing when it is over. */
  end(
    key: string,
    how: Pick<StreamRow, "status" | "result" | "error">,
    settings: StreamSettings,
  ): boolean {
    const { row } = this.of(key);
    if (row !== undefined && row.status !== "open") return false;
    const live = this.open(key, settings);
    this.change(live, { ...live.row!, ...how });
    this.agent.committer.touch(this.writer());
    return true;
  }

  remove(key: string): boolean {
    this.agent.assertRunning();
    const live = this.of(key);
    if (live.row === undefined) return false;
    this.drop(live);
    this.agent.committer.touch(this.writer());
    return true;
  }

  /** Removes expired streams. Returns when the next one expires; undefined: none is left. */
  expire(): number | undefined {
    const nowMs = this.agent.time.nowMs();
    let later: number | undefined;
    for (const { key } of this.table.expired(nowMs)) {
      const live = this.of(key);
      const { row } = live;
      if (row === undefined) continue;
      // The table lacks writes that are not stored yet.
      const atMs = row.updatedMs + row.keepMs;
      if (atMs > nowMs) later = Math.min(later ?? Infinity, atMs);
      else this.drop(live);
    }
    if (this.unstored) this.agent.committer.touch(this.writer());
    const next = this.table.nextExpiryMs(nowMs);
    return next === undefined ? later : Math.min(next, later ?? Infinity);
  }

  /** The stored chunks after the cursor (rule 2). */
  look(key: string, from: Cursor): Look {
    const { stored } = this.of(key);
    if (stored === undefined) return { _tag: "Absent" };
    const { id } = stored;
    const isOther = from.id !== undefined && from.id !== id;
    // The end counts as a chunk. A larger number is from another history: the agent was restored.
    const restarted = isOther || from.sequence > stored.sequence + 1;
    const after = restarted ? 0 : Math.min(from.sequence, stored.sequence);
    const chunks: unknown[] = [];
    let at = after;
    for (const row of after < stored.sequence ? this.table.after(id, after) : []) {
      // It is written, and its commit is in flight.
      if (row.last > stored.sequence) break;
      chunks.push(...row.chunks.slice(row.chunks.length - (row.last - at)));
      at = row.last;
    }
    // Users' SQL may have deleted rows: the reader does not wait for them.
    const caughtUp = at >= stored.sequence || chunks.length === 0;
    const over = caughtUp && stored.status !== "open" ? stored : undefined;
    return { _tag: "Found", id, restarted, chunks, sequence: at, caughtUp, over };
  }

  /** Calls `f` whenever more of the stream is stored, until the returned function is called. */
  watch(key: string, f: () => void): () => void {
    const live = this.of(key);
    live.waiters.add(f);
    return () => void live.waiters.delete(f);
  }

  /** Resolves to true when more of the stream is stored, to false after `ms`. */
  changed(key: string, ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (changed: boolean): void => {
        unwatch();
        cancel();
        resolve(changed);
      };
      const unwatch = this.watch(key, () => settle(true));
      const cancel = this.agent.time.after(ms, () => settle(false));
    });
  }

  /** The turn has ended, or calls another system: stores its chunks now (rule 1). */
  storeFor(turn: Turn): void {
    if (this.writers.has(turn)) this.agent.committer.touch(turn);
  }

  /** Writes gathered chunks to the tables, for the current commit. */
  store(): void {
    if (this.dirty.size === 0) return;
    this.cancelGather?.();
    this.cancelGather = undefined;
    this.writers = new Set();
    const stored = [...this.dirty.values()];
    this.dirty.clear();
    for (const live of stored) this.storeOne(live);
  }

  /** Chunks written inside an open transaction are stored after it. */
  storeLater(): void {
    if (this.dirty.size > 0) this.gather();
  }

  private storeOne(live: Live): void {
    const { row, pending, removed } = live;
    live.pending = [];
    live.pendingSize = 0;
    live.removed = [];
    try {
      for (const gone of removed) this.table.remove(gone);
      if (row !== undefined) {
        this.table.put(row);
        // A rollback undoes the alarm that was set when the stream was begun, not the stream.
        if (live.tabled === undefined) {
          const turn = this.writer(`stream ${row.key}`);
          this.agent.inTurn(turn, () => this.alarm.by(row.updatedMs + row.keepMs));
        }
        if (pending.length > 0) this.table.add(row.id, row.sequence, pending);
      }
      live.tabled = row;
    } catch (error) {
      // The database is full: the agent continues, and code that writes to the stream receives the
      // error.
      this.agent.log.error("a stream can't be stored; it has failed", {
        stream: row?.key ?? removed[0]?.key,
        error: messageOf(error),
      });
      if (row !== undefined) live.row = { ...row, status: "failed", error: messageOf(error) };
      return;
    }
    this.agent.committer.afterCommit(() => {
      live.stored = row;
      for (const f of live.waiters) f();
    });
  }

  private of(key: string): Live {
    const known = this.live.get(key);
    if (known !== undefined) return known;
    this.forgetIdle();
    const row = this.table.get(key);
    const live: Live = {
      row,
      tabled: row,
      stored: row,
      pending: [],
      pendingSize: 0,
      removed: [],
      waiters: new Set(),
    };
    this.live.set(key, live);
    return live;
  }

  private open(key: string, { keepMs }: StreamSettings): Live {
    const { agent } = this;
    agent.assertRunning();
    agent.parts.limits.checkState(agent.turn(), undefined);
    const live = this.of(key);
    const { row } = live;
    if (row !== undefined) {
      if (row.status !== "open") throw new StreamOver({ key, status: row.status });
      return live;
    }
    this.makeRoom(key);
    const nowMs = agent.time.nowMs();
    live.row = {
      key,
      id: agent.time.id(),
      status: "open",
      sequence: 0,
      size: 0,
      result: null,
      error: null,
      createdMs: nowMs,
      updatedMs: nowMs,
      keepMs,
    };
    this.change(live, live.row);
    agent.inTurn(this.writer(), () => this.alarm.by(nowMs + keepMs));
    return live;
  }

  /** Rule 3. */
  private makeRoom(key: string): void {
    let count = this.table.count();
    for (const { row, tabled, removed } of this.dirty.values())
      count += Number(row !== undefined && tabled === undefined) - removed.length;
    if (count < STREAMS_MAX) return;
    // The table's row of a changed stream may be that of an earlier one.
    const oldest = this.table.oldestOver(this.dirty);
    if (oldest === undefined) throw new TooManyStreams({ key, streamsMax: STREAMS_MAX });
    this.drop(this.of(oldest.key));
  }

  private drop(live: Live): void {
    const { row, tabled } = live;
    if (row === undefined) return;
    if (tabled !== undefined) live.removed.push(tabled);
    live.tabled = undefined;
    live.row = undefined;
    live.pending = [];
    live.pendingSize = 0;
    this.dirty.set(row.key, live);
  }

  private change(live: Live, row: StreamRow): void {
    const { agent } = this;
    live.row = { ...row, updatedMs: agent.time.nowMs() };
    this.dirty.set(row.key, live);
    const turn = agent.turn();
    if (!turn.durable) this.writers.add(turn);
    this.gather();
  }

  private gather(): void {
    this.cancelGather ??= this.agent.time.after(GATHER_MS, () => {
      this.cancelGather = undefined;
      if (!this.agent.discarded) this.storeSoon();
    });
  }

  /** Runs as a new turn, of no input. The end of a step stores what its function wrote. */
  storeSoon(): void {
    const { agent } = this;
    const [first, ...others] = this.dirty.keys();
    if (first === undefined) return;
    const turn = this.writer(
      `stream ${first}${others.length > 0 ? ` and ${others.length} more` : ""}`,
    );
    turn.wroteSql(INSERT_CHUNKS);
    agent.committer.touch(turn);
  }

  /** The turn that writes: of a step's function its own, whose chunks outlive the step's turn. */
  private writer(
    type = this.agent.currentStep && `streams of ${this.agent.currentStep.name}`,
  ): Turn {
    if (type === undefined) return this.agent.turn();
    const turn = this.agent.newTurn({ kind: "background", type });
    turn.yields = true;
    return turn;
  }

  private forgetIdle(): void {
    if (this.live.size < IDLE_MAX) return;
    for (const [key, live] of this.live)
      if (live.waiters.size === 0 && live.row === live.stored && !this.dirty.has(key))
        this.live.delete(key);
  }
}
