/**
 * The agent's queue: one lane, first in first out, one item at a time with all its retries
 * (`protocol.md` table at the top, §6.4). Other lanes use this class, too.
 *
 * 1. `push` is durable with the commit of the turn that called it; the lane runs the item only
 *    after that.
 * 2. Each push has a trigger in the inbox: it wakes the agent on whichever host owns it then. The
 *    table, not the trigger, says what runs: a trigger whose row is gone or was replaced is dropped
 *    once that is stored.
 * 3. An item leaves the table in its last commit. A failing item blocks those behind it no longer
 *    than its retries take.
 */
import { encodeEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { InboxShape, InputHandle } from "../inbox/Inbox.ts";
import { messageOf } from "../errors/thrown.ts";
import { toJson } from "../journal/jsonText.ts";
import { storeInput } from "../inbox/storeInput.ts";
import {
  QUEUE_TABLE,
  QueueTable,
  toQueueItem,
  type QueueItem,
  type QueueRow,
} from "./QueueTable.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { methodOf, type Callback } from "./methodOf.ts";
import { resolveRetry } from "../retry/retryPolicy.ts";
import { runJob, type JobAgent, type ShownPayload } from "./runJob.ts";
import type { GivenUp } from "../dead/DeadLetters.ts";
import type { CommitTriggers } from "../turn/CommitTriggers.ts";
import { rowChanges } from "../journal/RowChanges.ts";
import { HeldTriggers } from "./HeldTriggers.ts";
import type { QueueOptions } from "./QueueOptions.ts";
import { CountedRows, type CeilingName } from "../turn/Ceilings.ts";
import { SparseSet } from "../collections/sparse.ts";

export interface JobPorts {
  readonly inbox: Pick<InboxShape, "publish">;
  readonly signal: AbortSignal;
  /** Stores a dead letter for a job; `input` is the input that an operator may redrive. */
  readonly deadLetter: (input: Uint8Array, letter: GivenUp) => Promise<void>;
}

/** The agent that a lane belongs to. */
export interface QueueAgent extends JobAgent {
  /** The user's object. */
  readonly agent: object;
  readonly options: { readonly retry?: RetryOptions; readonly redact?: ReadonlyArray<string> };
}

/** What distinguishes the lanes of an agent. */
interface Lane {
  /** SQL table of the items that wait. */
  readonly table: string;
  /** Start of its triggers' keys. */
  readonly keys: string;
  /** Names an item's payload in errors. */
  readonly payload: string;
  /** Start of the types of its observability events; undefined: it emits none. */
  readonly events: string | undefined;
  /** The function that an item runs. Throws for an unknown name. */
  readonly callback: (agent: QueueAgent, name: string) => Callback;
  readonly mayRetry: (error: unknown) => boolean;
  /** What the journal shows of an item's payload, JSON text. Absent: all of it. */
  readonly shown?: (agent: QueueAgent, payload: string) => ShownPayload;
  /** How many may wait; undefined: as many as there are. */
  readonly ceiling: CeilingName | undefined;
  /** How many run side by side. Absent: one. */
  readonly width?: number;
  /** Absent: no caller waits for an item's end, and one that fails for good is dead-lettered. */
  readonly answers?: LaneAnswers;
}

/** A lane that keeps the ids of its items, and whose results have callers. */
interface LaneAnswers {
  /** Called once for each item. Its writes are part of the item's last commit. */
  readonly end: (row: QueueRow, end: JobEnd) => void;
  /** Called when that is stored. */
  readonly stored: (row: QueueRow) => void;
  /** As in `Turn`, of the item's turn. */
  readonly depth: (row: QueueRow) => number;
}

/** The result of an item's callback, or its last error. */
export type JobEnd = { readonly value: unknown } | { readonly error: unknown };

/** `this.queue()`: methods of the agent. */
export const QUEUE: Lane = {
  table: QUEUE_TABLE,
  keys: "queue",
  payload: "queue: the payload",
  events: "queue",
  callback: (agent, name) => {
    if (typeof name !== "string")
      throw new TypeError(
        `queue: the method must be its name, and not of type ${typeof name}: queue("answer", …)`,
      );
    return methodOf(agent.agent, name, () => new Error(`this.${name} is not a function`));
  },
  mayRetry: () => true,
  ceiling: "queueMax",
};

const encoder = new TextEncoder();

export class QueueLane {
  private readonly table: QueueTable;
  private readonly counted = new CountedRows();
  private readonly held = new HeldTriggers();
  private pushed: QueueRow[] = [];
  private removed: string[] = [];
  /** Pushes that are not stored yet. */
  private readonly unstored = new SparseSet<string>();
  /** Pushes whose items run, or wait to be stored. */
  private readonly claimed = new SparseSet<string>();
  /** How many calls of `drain` are under way. */
  private drains = 0;
  private stopped = false;
  private ranAny = false;

  constructor(
    private readonly agent: QueueAgent,
    private readonly ports: JobPorts,
    private readonly lane = QUEUE,
  ) {
    this.table = new QueueTable(agent.database, lane.table);
  }

  /**
   * Adds an item and returns its id. `uid`: of an item that a redrive puts back. Throws for a
   * callback that the agent does not have, retry options out of range and a payload that is not
   * JSON; also `CeilingReached` and `AgentDiscarded`.
   */
  push(callback: string, payload: unknown, options: QueueOptions, uid?: string): string {
    const { agent } = this;
    // A workflow's step may end, and be recorded, after its agent was lost: that is not a failure
    // of the step.
    agent.assertMayWrite();
    this.lane.callback(agent, callback);
    const retry = resolveRetry(agent.options.retry, options.retry);
    this.makeRoom(options.id);
    const id = options.id ?? agent.time.id();
    const row: QueueRow = {
      id,
      uid: this.lane.answers === undefined ? (uid ?? agent.time.id()) : id,
      callback,
      payload: toJson(payload, this.lane.payload),
      retryOptions: JSON.stringify(retry),
      createdAt: Math.floor(agent.time.nowMs() / 1000),
    };
    const replaced = options.id === undefined ? undefined : this.table.get(options.id);
    this.table.push(row);
    this.pushed.push(row);
    this.unstored.add(row.uid);
    agent.touch();
    agent.committer.afterCommit(() => {
      this.unstored.delete(row.uid);
      if (replaced !== undefined) this.releaseReplaced(replaced);
      this.kick();
    });
    this.emit("create", { callback, id });
    return id;
  }

  /** Its trigger is done, unless the replacement was rolled back, or the item runs. */
  private releaseReplaced(row: QueueRow): void {
    if (!this.claimed.has(row.uid) && !this.table.hasUid(row.uid))
      this.held.release(this.keyOf(row));
  }

  /** Throws `CeilingReached`. An item that replaces another needs none. */
  private makeRoom(id: string | undefined): void {
    const { ceiling } = this.lane;
    if (ceiling === undefined || (id !== undefined && this.table.get(id) !== undefined)) return;
    this.counted.add(ceiling, this.agent.ceiling(ceiling), () => this.table.count());
  }

  /**
   * Changes the payload of an item that runs: that of its further attempts and its dead letter.
   * Does nothing if the item is gone or was replaced.
   */
  protected amend(id: string, payload: unknown): void {
    const row = this.table.get(id);
    if (row === undefined || !this.claimed.has(row.uid)) return;
    this.table.setPayload(row.uid, toJson(payload, this.lane.payload));
    this.agent.touch();
  }

  /** Removes waiting items; the running one continues. Returns their number. */
  remove(where: "id = ?" | "callback = ?" | "1", value?: string): number {
    this.agent.assertMayWrite();
    const ids = this.table.remove(where, value === undefined ? [] : [value]);
    if (ids.length > 0) {
      this.counted.removed(ids.length);
      for (const id of ids) this.removed.push(id);
      this.agent.touch();
    }
    return ids.length;
  }

  get(id: string): QueueItem | undefined {
    const row = this.table.get(id);
    return row === undefined ? undefined : toQueueItem(row);
  }

  /** How often this item was journaled as begun. Above 0, it may have ended a host. */
  begun(id: string): number {
    const row = this.table.get(id);
    return row === undefined ? 0 : (this.agent.image.begun.get(this.keyOf(row))?.attempts ?? 0);
  }

  /** The items whose payload has this value under `key`. */
  matching(key: string, value: unknown): ReadonlyArray<QueueItem> {
    return this.table
      .all()
      .map(toQueueItem)
      .filter((item) => (item.payload as Record<string, unknown> | undefined)?.[key] === value);
  }

  /** A trigger was delivered. */
  offer(key: string, handle: InputHandle): void {
    this.held.hold(key, handle);
    if (this.table.hasUid(key.slice(this.lane.keys.length + 1))) return this.kick();
    this.agent.committer.afterFence(() => this.held.release(key));
  }

  /** Runs what waits; called when the agent has started, after a push, for a trigger. */
  kick(): void {
    const { width = 1 } = this.lane;
    if (this.drains >= width || this.stopped || this.agent.discarded || !this.table.exists) return;
    this.drains++;
    this.agent.waitUntil(
      this.drain()
        .catch((error: unknown) => {
          if (!this.agent.discarded)
            this.agent.abort(`a queue item could not be finished: ${messageOf(error)}`);
        })
        .finally(() => {
          this.drains--;
          if (!this.agent.discarded && this.next() !== undefined) this.kick();
        }),
    );
    if (this.drains < width && this.next() !== undefined) this.kick();
  }

  /** Begins no more items; the running one continues. */
  stop(): void {
    this.stopped = true;
  }

  /** The agent was destroyed: no item is left. */
  destroy(): void {
    this.held.releaseAll();
  }

  /** A table was dropped, or a transaction rolled back. */
  forget(): void {
    this.counted.forget();
    this.table.forget();
  }

  /** This commit's share (`Triggers`). */
  takeTriggers(): CommitTriggers | undefined {
    if (this.pushed.length === 0 && this.removed.length === 0) return undefined;
    const { removed } = this;
    // Without items that were rolled back, or removed in the same turn.
    const pushed = this.pushed.filter((row) => this.table.hasUid(row.uid));
    this.pushed = [];
    this.removed = [];
    const shown = pushed.map((row) => toQueueItem({ ...row, payload: this.shown(row).text }));
    const changes = rowChanges(shown, removed);
    return {
      before: async () => {
        await Promise.all(pushed.map((row) => this.publish(row)));
      },
      ...(changes === undefined ? {} : { queue: changes }),
    };
  }

  private shown({ payload: text }: QueueRow): ShownPayload {
    return text === null ? { text } : (this.lane.shown?.(this.agent, text) ?? { text });
  }

  private keyOf(row: QueueRow): string {
    return `${this.lane.keys}:${row.uid}`;
  }

  private async publish(row: QueueRow): Promise<void> {
    const { inbox, signal } = this.ports;
    const data = encodeEnvelope({
      key: this.keyOf(row),
      kind: "queue",
      type: row.callback,
      time: this.agent.time.nowMs(),
    });
    await storeInput(inbox, this.agent.id, data, signal);
  }

  private async drain(): Promise<void> {
    const { committer } = this.agent;
    for (;;) {
      const row = this.stopped ? undefined : this.next();
      if (row === undefined) break;
      this.claimed.add(row.uid);
      try {
        // Rule 1. The item may be gone by then.
        if (this.unstored.has(row.uid)) await committer.stored();
        else {
          await this.run(row);
          this.held.release(this.keyOf(row));
        }
      } finally {
        this.claimed.delete(row.uid);
      }
    }
    // Triggers of items that were taken out or replaced (rule 2).
    await committer.stored();
    if (this.table.first() === undefined) this.held.releaseAll();
  }

  /** The oldest that does not run. */
  private next(): QueueRow | undefined {
    return this.table.first([...this.claimed]);
  }

  private emit(type: string, payload: Readonly<Record<string, unknown>>): void {
    const { events } = this.lane;
    if (events !== undefined) this.agent.emit(`${events}:${type}`, payload);
  }

  /** True once an activation: of the waiting items, only the first may have ended the last host. */
  private isFirst(): boolean {
    const first = !this.ranAny;
    this.ranAny = true;
    return first;
  }

  private async run(row: QueueRow): Promise<void> {
    const { agent, lane } = this;
    const { answers, width = 1 } = lane;
    const item = toQueueItem(row);
    const { callback, id } = row;
    let ended: JobEnd = { value: undefined };
    await runJob(agent, {
      kind: "queue",
      key: this.keyOf(row),
      callback,
      shown: this.shown(row),
      retry: item.retry,
      suspect: (this.isFirst() || width > 1) && row.createdAt * 1000 < agent.startedMs,
      isWanted: () => this.table.hasUid(row.uid),
      run: async () => {
        const latest = toQueueItem(this.table.ofPush(row.uid) ?? row); // `amend`
        ended = { value: await lane.callback(agent, callback)(latest.payload, latest) };
      },
      depth: answers?.depth(row),
      mayRetry: lane.mayRetry,
      settle: () => {
        answers?.end(row, ended);
        const gone = this.table.remove("uid = ?", [row.uid]);
        this.counted.removed(gone.length);
        this.removed.push(...gone);
        agent.touch();
      },
      deadLetter: answers
        ? undefined
        : (letter) =>
            this.ports.deadLetter(
              deadInput(
                { kind: "queue", key: this.keyOf(row), id, retry: item.retry },
                this.table.ofPush(row.uid) ?? row,
                agent.time.nowMs(),
              ),
              letter,
            ),
      onRetry: (attempt) =>
        this.emit("retry", { callback, id, attempt, maxAttempts: item.retry.maxAttempts }),
      onFailed: (error, attempts) => {
        ended = { error };
        this.emit("error", { callback, id, error: messageOf(error), attempts });
      },
    });
    answers?.stored(row);
  }
}

/** A job as an envelope with its payload, as the dead letters store it. */
export const deadInput = (
  job: Required<InboxHead>["job"],
  { callback, payload }: Pick<QueueRow, "callback" | "payload">,
  time: number,
): Uint8Array =>
  encodeEnvelope(
    { key: job.key, kind: job.kind, type: callback, time, job },
    payload === null ? undefined : encoder.encode(payload),
  );
