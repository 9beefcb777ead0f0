/**
 * `ctx.storage` of a Durable Object: the calls that agents have (`AgentStorage`), and those that
 * only objects use: asynchronous transactions, `deleteAll`, the alarm. Calls that return promises
 * wait while a block of other code runs (`ObjectBlocks`, rule 3). Bytes of SQL come back as
 * `ArrayBuffer`s, as on the reference's platform.
 */
import { ownBuffer } from "../../schemas/ownBuffer.ts";
import type { AgentRuntime } from "../agent/AgentRuntime.ts";
import { AgentStorage, SqlCursor } from "../database/AgentStorage.ts";
import type { SqlResult } from "../database/Databases.ts";
import type { ObjectBlocks } from "./ObjectBlocks.ts";

/** The alarm of one object (`ObjectActor`). */
export interface ObjectAlarms {
  /** Milliseconds since the epoch; null without one that is still to begin. */
  get(): number | null;
  /** Null: none. */
  set(atMs: number | null): void;
}

/** Tables that are the runtime's own, or SQLite's. */
const KEPT =
  "name NOT LIKE 'svc\\_agents\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";

/** The storage in a transaction, which can be undone. After `rollback` its calls reject. */
interface ObjectTransaction extends Pick<
  ObjectStorage,
  "get" | "put" | "delete" | "list" | "getAlarm" | "setAlarm" | "deleteAlarm"
> {
  /** Undoes the transaction: nothing of it is stored when its function returns. */
  rollback(): void;
}

interface ObjectStorageParts {
  readonly runtime: Pick<
    AgentRuntime,
    "query" | "transaction" | "flush" | "beginTransaction" | "afterCommit"
  >;
  readonly blocks: ObjectBlocks;
  readonly alarms: ObjectAlarms;
}

export class ObjectStorage extends AgentStorage {
  readonly #parts: ObjectStorageParts;
  /** Calls of `deleteAll` that are not stored. */
  #deletions = 0;

  constructor(parts: ObjectStorageParts) {
    super(parts.runtime);
    this.#parts = parts;
  }

  protected override cursorOf<Row>({ columns, rows, rowsWritten }: SqlResult): SqlCursor<Row> {
    const plain = rows.map((row) =>
      row.map((value) => (value instanceof Uint8Array ? (ownBuffer(value) as never) : value)),
    );
    return new SqlCursor<Row>(columns, plain, rowsWritten);
  }

  protected override access<A>(f: () => A): A | Promise<A> {
    return this.#parts.blocks.access(f);
  }

  /**
   * Runs `f` as a block (`ObjectState.blockConcurrencyWhile`), and stores what it wrote, by SQL
   * too, as one: nothing of it when it rejects, or has called `rollback()`. Settles as `f` does.
   * After 30 s the object is discarded from memory, and nothing is stored.
   */
  async transaction<A>(f: (txn: ObjectTransaction) => A | Promise<A>): Promise<A> {
    const { runtime, blocks } = this.#parts;
    return blocks.run("a transaction", async (block) => {
      let undone = false;
      // These are part of the transaction, whatever code calls them.
      const within = async <B>(act: () => Promise<B>): Promise<B> => {
        if (undone) throw new Error("The transaction has been rolled back");
        return blocks.within(block, act);
      };
      const txn: ObjectTransaction = {
        get: (key: never) => within(() => this.get(key)) as never,
        put: (key: never, value?: unknown) => within(() => this.put(key, value)),
        delete: (key: never) => within(() => this.delete(key)) as never,
        list: (options) => within(() => this.list(options)),
        getAlarm: () => within(() => this.getAlarm()),
        setAlarm: (time) => within(() => this.setAlarm(time)),
        deleteAlarm: () => within(() => this.deleteAlarm()),
        rollback: () => (undone = true),
      };
      const open = runtime.beginTransaction(block);
      try {
        const result = await f(txn);
        await block.quiet();
        if (undone) open.rollback();
        else open.commit();
        return result;
      } catch (error) {
        await block.quiet();
        open.rollback();
        throw error;
      }
    });
  }

  /** For `ObjectState.abort`: whether a `deleteAll` is not stored yet. */
  static isDeleting(storage: ObjectStorage): boolean {
    return storage.#deletions > 0;
  }

  /**
   * Deletes every key, every table and the alarm. The object itself continues. An `abort` that
   * follows does not undo it.
   */
  async deleteAll(): Promise<void> {
    return this.access(() => this.#deleteAll());
  }

  #deleteAll(): void {
    const { runtime, alarms } = this.#parts;
    alarms.set(null);
    runtime.transaction(() => {
      // Rows of one table may refer to another that is dropped before it.
      runtime.query("PRAGMA defer_foreign_keys = ON", []);
      for (const type of ["view", "table"]) {
        // One by one: with a virtual table go those that it is made of.
        for (;;) {
          const { rows } = runtime.query(
            `SELECT name FROM sqlite_master WHERE type = ? AND ${KEPT} ORDER BY sql NOT LIKE 'CREATE VIRTUAL%' LIMIT 1`,
            [type],
          );
          const name = rows[0]?.[0];
          if (name === undefined) break;
          runtime.query(`DROP ${type} "${String(name).replaceAll('"', '""')}"`, []);
        }
      }
    });
    this.#deletions += 1;
    runtime.afterCommit(() => (this.#deletions -= 1));
  }

  /** The time of the alarm; null without one, and while its handler runs. */
  async getAlarm(): Promise<number | null> {
    return this.access(() => this.#parts.alarms.get());
  }

  /**
   * Calls the object's `alarm()` at a time, in milliseconds or as a `Date`; at once for one that
   * has passed. Replaces the alarm that is set. Rejects with `TypeError` for an invalid time, and
   * for a class without `alarm()`.
   */
  async setAlarm(time: number | Date): Promise<void> {
    const atMs = Math.trunc(Number(time));
    if (!(Number.isFinite(atMs) && atMs > 0))
      throw new TypeError("setAlarm() takes a Date, or milliseconds since the epoch");
    return this.access(() => this.#parts.alarms.set(atMs));
  }

  /** Deletes the alarm. In its own handler: the alarm is not retried. */
  async deleteAlarm(): Promise<void> {
    return this.access(() => this.#parts.alarms.set(null));
  }
}
