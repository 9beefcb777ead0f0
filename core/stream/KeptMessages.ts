/**
 * Kept broadcasts of an agent: messages that clients which were away receive when they come back.
 * `cf_agents_kept_messages`, a table of the agent's own database, has them until their time is
 * over; made with the first one.
 *
 * 1. Kept messages are numbered from 1 without a gap, for as long as the agent lives. The newest
 *    row stays, without its message, so that numbers never come again. An undo of turns keeps what
 *    was sent (`undoParts`), and a rollback frees numbers that were not.
 * 2. A socket whose URL has `since` first receives what follows that place, and each message with
 *    its number. Any other socket receives the plain message, and nothing that it missed.
 * 3. A message is sent once it is stored. What a socket missed is read from the table after that,
 *    so no message is lost in between. One that arrives twice has the same number.
 * 4. At most `MESSAGES_MAX` and `SIZE_MAX` are kept; the oldest are dropped first, and a client
 *    that missed those is notified.
 * 5. A client that asks again before it is answered is answered once, in a slice (`readSlicesOf`):
 *    a frame of a few bytes can ask for all of them.
 *
 * Part of `Keeping`.
 */
import { ownBytes } from "../../schemas/ownBuffer.ts";
import { toBase64 } from "../../schemas/base64.ts";
import { Connection, type ConnectionMessage } from "../connection/Connection.ts";
import { keptFrame, type KeptFrame } from "../connection/protocol.ts";
import { copyTable } from "../database/copyTable.ts";
import { tableExists } from "../database/tableExists.ts";
import type { AgentDatabase, Queried, SqlResult, SqlValue } from "../database/Databases.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { readSlicesOf } from "../time/TimeSlices.ts";
import { cursorText, parseCursor } from "./Cursor.ts";
import type { ExpiryAlarm } from "./ExpiryAlarm.ts";

const TABLE = "cf_agents_kept_messages";
const DDL = `CREATE TABLE IF NOT EXISTS ${TABLE} (
  seq INTEGER PRIMARY KEY NOT NULL,
  message,
  except_ids TEXT,
  size INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
)`;
/** Rule 4. A client that was away receives all of them at once. */
const MESSAGES_MAX = 1000;
/** Rule 4: bytes of all kept messages, a quarter of what a socket may fall behind. */
const SIZE_MAX = 1024 * 1024;
/** Bytes of one message: its frame stays well within the broker's limit. */
const MESSAGE_SIZE_MAX = 64 * 1024;

/** The agent that keeps messages. */
export interface KeptAgent
  extends Queried, Pick<AgentTurns, "committer" | "database" | "discarded" | "image" | "time"> {
  readonly sockets: {
    /** Does not wait for the output gate. */
    sendStored(connection: Connection, frame: string): void;
    /**
     * Does not wait for the output gate. Sends it with its number to sockets that have `since`
     * (rule 2), plain to the others.
     */
    castKept(message: string | Uint8Array, frame: string, except: ReadonlyArray<string>): void;
    values(): IterableIterator<Connection>;
  };
}

export class KeptMessages {
  /** The places of clients that have asked and wait for a slice (rule 5). */
  private readonly asking = new Map<Connection, string>();
  /** The last number whose commit is stored. */
  private stored: number;
  /** Which broadcast has a number that is not stored yet: a rollback frees numbers. */
  private readonly unstored = new Map<number, symbol>();

  constructor(
    private readonly agent: KeptAgent,
    private readonly alarm: ExpiryAlarm,
  ) {
    this.stored = this.newest;
  }

  /**
   * Sends it to every socket but `except`, and keeps it. Throws `RangeError` when it is too large,
   * and `TypeError` for a value that is neither text nor bytes.
   */
  broadcast(message: ConnectionMessage, except: ReadonlyArray<string>, keepMs: number): void {
    const { agent } = this;
    if (
      typeof message === "object" &&
      !ArrayBuffer.isView(message) &&
      !(message instanceof ArrayBuffer)
    )
      // prettier-ignore
      throw new TypeError("a kept message must be text or bytes: broadcast JSON.stringify(message)");
    const value = typeof message === "string" ? message : ownBytes(message);
    const size = typeof value === "string" ? new TextEncoder().encode(value).length : value.length;
    if (size > MESSAGE_SIZE_MAX)
      throw new RangeError(
        `a kept message is ${size} bytes, and the limit is ${MESSAGE_SIZE_MAX}: send a reference to larger data`,
      );
    if (!this.exists) agent.query(DDL, []);
    const nowMs = agent.time.nowMs();
    const seq = Math.max(this.stored, this.newest) + 1;
    agent.query(
      `INSERT INTO ${TABLE} (seq, message, except_ids, size, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)`,
      [
        seq,
        value,
        except.length === 0 ? null : JSON.stringify(except),
        size,
        nowMs,
        nowMs + keepMs,
      ],
    );
    this.makeRoom(seq);
    this.alarm.by(nowMs + keepMs);
    const own = Symbol(seq);
    this.unstored.set(seq, own);
    agent.committer.afterCommit(() => {
      if (this.unstored.get(seq) !== own) return;
      this.unstored.delete(seq);
      if (this.newest < seq) return;
      this.stored = seq;
      agent.sockets.castKept(value, keptFrame(this.frameOf(seq, value)), except);
    });
  }

  /** A client has noticed a gap: as `sendMissed` (rule 5). */
  ask(connection: Connection, since: string): void {
    const waits = this.asking.has(connection);
    this.asking.set(connection, since);
    if (waits) return;
    readSlicesOf(this.agent.time).run(() => {
      const asked = this.asking.get(connection) ?? since;
      this.asking.delete(connection);
      if (!this.agent.discarded) this.sendMissed(connection, asked);
    });
  }

  /**
   * Sends a client that has connected what follows its place, and then the newest place. `since`:
   * from its URL or frame; empty for a client that was never here.
   */
  sendMissed(connection: Connection, since: string): void {
    this.agent.committer.afterCommit(() => {
      if (connection.readyState !== Connection.OPEN) return;
      const { stored } = this;
      if (stored === 0) return;
      const before = since === "" ? stored : this.placeOf(since);
      const rows = before < stored ? this.after(before) : [];
      for (const { seq, message, except } of rows)
        if (message !== null && !except.includes(connection.id))
          this.send(connection, { ...this.frameOf(seq, message), resent: true });
      const complete = before === stored || (rows[0]?.seq === before + 1 && rows.every(isThere));
      this.send(connection, {
        seq: cursorText(this.life, stored),
        end: true,
        ...(complete ? {} : { missed: true }),
      });
    });
  }

  /** Frames to it may be lost: sends the newest place, and the client requests what it lacks. */
  tellPlace(connection: Connection): void {
    if (this.stored > 0) this.send(connection, { seq: cursorText(this.life, this.stored) });
  }

  /** Removes expired messages. Returns when the next one expires; undefined: none is left. */
  expire(): number | undefined {
    if (!this.exists) return undefined;
    const nowMs = this.agent.time.nowMs();
    this.remove("expires_at <= ?", nowMs);
    const sql = `SELECT min(expires_at) FROM ${TABLE} WHERE message IS NOT NULL`;
    const at = this.read(sql).rows[0]![0];
    return at === null || at === undefined ? undefined : Number(at);
  }

  /** The agent's life. Each life counts from 1. */
  private get life(): string {
    return String(this.agent.image.life);
  }

  private get exists(): boolean {
    return !this.agent.database.isEmpty && tableExists(this.agent.database, TABLE);
  }

  /** The last number in the table; 0: none. */
  private get newest(): number {
    if (!this.exists) return 0;
    return Number(this.read(`SELECT coalesce(max(seq), 0) FROM ${TABLE}`).rows[0]![0]);
  }

  /**
   * The number in a client's place. 0 for a place in another life, or in another history of a
   * restored agent: every kept message is new there.
   */
  private placeOf(since: string): number {
    const place = parseCursor(since);
    if (place === undefined || place.sequence > this.stored) return 0;
    return place.id === undefined || place.id === this.life ? place.sequence : 0;
  }

  private after(seq: number) {
    const { rows } = this.read(
      `SELECT seq, message, except_ids FROM ${TABLE} WHERE seq > ? AND seq <= ? ORDER BY seq`,
      [seq, this.stored],
    );
    return rows.map(([at, message, except]) => ({
      seq: Number(at),
      message: message as string | Uint8Array | null,
      except: except === null ? [] : (JSON.parse(String(except)) as ReadonlyArray<string>),
    }));
  }

  /** Rule 4. */
  private makeRoom(seq: number): void {
    if (seq > MESSAGES_MAX) this.remove("seq <= ?", seq - MESSAGES_MAX);
    const sql = `SELECT max(seq) FROM (SELECT seq, sum(size) OVER (ORDER BY seq DESC) AS total FROM ${TABLE}) WHERE total > ?`;
    const over = this.read(sql, [SIZE_MAX]).rows[0]![0];
    if (over !== null && over !== undefined) this.remove("seq <= ?", Number(over));
  }

  /** Rule 1. */
  private remove(which: string, value: number): void {
    const newest = `(SELECT max(seq) FROM ${TABLE})`;
    if (this.read(`SELECT 1 FROM ${TABLE} WHERE message IS NOT NULL AND ${which} LIMIT 1`, [value]).rows.length === 0) return; // prettier-ignore
    this.agent.query(`DELETE FROM ${TABLE} WHERE ${which} AND seq < ${newest}`, [value]);
    this.agent.query(`UPDATE ${TABLE} SET message = NULL, size = 0 WHERE ${which}`, [value]);
  }

  private read(sql: string, params: ReadonlyArray<SqlValue> = []): SqlResult {
    return this.agent.database.query(sql, params);
  }

  private frameOf(seq: number, message: string | Uint8Array): KeptFrame {
    const place = cursorText(this.life, seq);
    return typeof message === "string"
      ? { seq: place, message }
      : { seq: place, data: toBase64(message) };
  }

  private send(connection: Connection, frame: KeptFrame): void {
    this.agent.sockets.sendStored(connection, keptFrame(frame));
  }
}

/** Replaces the kept messages of one database by those of another. */
export function copyKeptMessages(from: AgentDatabase, to: AgentDatabase): void {
  copyTable(from, to, TABLE);
}

const isThere = ({ message }: { readonly message: unknown }): boolean => message !== null;

/**
 * The place in a socket's URL: empty for a client that was never here; undefined for one that does
 * not ask for places, also where `since` is a parameter of the app's own.
 */
export function sinceOf(url: string): string | undefined {
  const since = /[?&]since=([^&#]*)/.exec(url)?.[1];
  return since === undefined || since === "" || parseCursor(since) !== undefined
    ? since
    : undefined;
}
