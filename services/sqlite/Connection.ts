/**
 * One SQLite connection over a `PageFile`: settings, prepared statements, queries, transactions.
 *
 * Settings, and why: `journal_mode` MEMORY, because SQLite's journal only serves rollback (the page
 * file keeps uncommitted pages apart, so nothing half-written is committed); `synchronous` OFF,
 * because the journal event makes a write durable; `locking_mode` EXCLUSIVE, because nothing else
 * opens the file; no lookaside, because a thousand idle agents would hold 48 KB each; a page cache
 * that grows page by page. Foreign keys are enforced, as in Durable Objects. Schemas are untrusted.
 *
 * Temporary tables and PRAGMA settings last until the agent hibernates. A connection that is closed
 * earlier, to free memory (`OpenConnections`), passes its settings on to the next one.
 */
import type {
  OpenTransaction,
  ReadOptions,
  SqlResult,
  SqlValue,
} from "../../core/database/Databases.ts";
import { IMAGE_BYTES_MAX } from "../../schemas/PageDelta.ts";
import type { Lasting } from "./authorize.ts";
import { SQLITE_OK, type Engine } from "./Engine.ts";
import type { PageFile } from "./PageFile.ts";
import { PAGE_SIZE } from "./PagePool.ts";
import { PreparedStatements } from "./PreparedStatements.ts";
import {
  hasNoPages, hasNul, placeAndCode, RESULT_AUTH, RESULT_FULL, RESULT_MISUSE, rolledBack, SqliteError,
  wrongBindings,
} from "./SqliteError.ts"; // prettier-ignore
import { Statement, type RowLimits } from "./Statement.ts";

const OPEN_READWRITE_CREATE = 0x2 | 0x4;
const OPEN_EXTENDED_CODES = 0x0200_0000;
const CONFIG_LOOKASIDE = 1001;
const CONFIG_FOREIGN_KEYS = 1002;
const CONFIG_DEFENSIVE = 1010;
const CONFIG_DOUBLE_QUOTED_DML = 1013;
const CONFIG_DOUBLE_QUOTED_DDL = 1014;
const CONFIG_TRUSTED_SCHEMA = 1017;
const PREPARE_PERSISTENT = 1;
/** `sqlite3_db_status`: page cache, schema, statements, in bytes. */
const STATUS_MEMORY = [1, 2, 3];

/** Pages in SQLite's cache, 256 KiB. A read past it costs a copy from the page file. */
const CACHE_PAGES = 64;

/**
 * Run on each new connection. With a cache of two pages SQLite allocates no block in advance. Page
 * 1 is then read, and later pages are allocated one by one.
 */
const SETTINGS = [
  `PRAGMA page_size = ${PAGE_SIZE}`,
  "PRAGMA locking_mode = EXCLUSIVE",
  "PRAGMA journal_mode = MEMORY",
  "PRAGMA synchronous = OFF",
  `PRAGMA max_page_count = ${IMAGE_BYTES_MAX / PAGE_SIZE}`,
  "PRAGMA cache_size = 2",
  "PRAGMA shrink_memory",
  "SELECT 1 FROM sqlite_schema LIMIT 1",
  `PRAGMA cache_size = ${CACHE_PAGES}`,
].join(";");

/** State of a connection that is not stored in the database. */
export interface ConnectionSettings {
  /** Values by PRAGMA, in the order in which they were set. */
  readonly pragmas: ReadonlyMap<string, string>;
  readonly lastInsertRowid: bigint;
}

export class Connection {
  private readonly name: string;
  private readonly db: number;
  private readonly statements = new PreparedStatements();
  private depth = 0;
  /** SQLite rolled the transaction back (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), a full disk). */
  private rolledBack = false;
  private hasTemporary = false;
  private pragmas: Map<string, string> | undefined;

  /** `settings`: of the previous connection. Throws `SqliteError` or the page file's error. */
  constructor(
    private readonly engine: Engine,
    private readonly file: PageFile,
    settings?: ConnectionSettings,
  ) {
    this.name = engine.addFile(file);
    const { exports } = engine;
    try {
      const out = engine.put(8);
      const code = exports.sqlite3_open_v2(
        engine.putText(this.name).at,
        out,
        OPEN_READWRITE_CREATE | OPEN_EXTENDED_CODES,
        engine.vfsName,
      );
      this.db = engine.readInt(out);
      if (code !== SQLITE_OK) throw this.failure(code);
    } finally {
      engine.release();
    }
    try {
      this.begin(settings);
    } catch (error) {
      // No room, or an unreadable page. The next attempt opens a new connection.
      this.close();
      throw error;
    }
  }

  /** As `AgentDatabase.query`. */
  query(sql: string, params: ReadonlyArray<SqlValue | boolean>, rowsMax?: number): SqlResult {
    if (this.rolledBack) throw rolledBack();
    const known = this.statements.get(sql);
    if (known !== undefined) return this.run(known, params, { rowsMax });
    let result: SqlResult = { columns: [], rows: [], wrote: false, rowsWritten: 0 };
    let first = true;
    let left = params;
    for (let rest = sql; rest.length > 0;) {
      const { statement, tail, lasts } = this.prepare(rest);
      if (statement !== undefined) {
        // A statement with a lasting effect is prepared on each use, so that the effect is recorded
        // each time.
        const whole = first && tail.length === 0 && !lasts;
        if (whole) this.statements.keep(sql, statement);
        try {
          // The last one is refused where too many are left. Text after it may be a comment.
          const taken = tail.length === 0 ? left : left.slice(0, statement.parameters);
          left = left.slice(taken.length);
          const last = this.run(statement, taken, { rowsMax });
          result = {
            ...last,
            wrote: result.wrote || last.wrote,
            rowsWritten: result.rowsWritten + last.rowsWritten,
          };
        } finally {
          if (!whole) statement.finalize();
        }
        first = false;
      }
      rest = tail;
    }
    this.statements.trim();
    if (left.length > 0) throw wrongBindings(params.length - left.length, params.length);
    return result;
  }

  /** As `AgentDatabase.read`. */
  read(sql: string, { timeMsMax, values = [], ...limits }: ReadOptions): SqlResult {
    return this.engine.asReader(this.db, timeMsMax, () => {
      const { statement, tail } = this.prepare(sql);
      try {
        // The rest may be just a comment.
        const second = tail === "" ? undefined : this.prepare(tail).statement;
        second?.finalize();
        if (statement === undefined || second !== undefined)
          throw new SqliteError("A query must be one statement that reads: use one SELECT", RESULT_MISUSE); // prettier-ignore
        return this.run(statement, values, limits);
      } finally {
        statement?.finalize();
      }
    });
  }

  /** As `AgentDatabase.transaction`. */
  transaction<A>(f: () => A): A {
    const open = this.beginTransaction();
    try {
      const result = f();
      if (isThenable(result))
        throw new TypeError(
          "transactionSync takes a synchronous function: the transaction would end at the first await",
        );
      open.commit();
      return result;
    } catch (error) {
      open.rollback();
      throw error;
    }
  }

  /** As `AgentDatabase.beginTransaction`. */
  beginTransaction(): OpenTransaction {
    if (this.rolledBack) throw rolledBack();
    const level = this.depth;
    const outermost = level === 0;
    if (outermost) this.file.beginTransaction();
    const name = `level${level}`;
    try {
      this.control(outermost ? "BEGIN" : `SAVEPOINT ${name}`);
    } catch (error) {
      if (outermost) this.file.endTransaction(false);
      throw error;
    }
    this.depth++;
    return {
      commit: () => {
        this.depth = level;
        if (this.rolledBack) throw rolledBack();
        this.control(outermost ? "COMMIT" : `RELEASE ${name}`);
        if (outermost) this.file.endTransaction(true);
      },
      rollback: () => {
        this.depth = level;
        if (!this.rolledBack && !this.autocommit)
          this.control(outermost ? "ROLLBACK" : `ROLLBACK TO ${name};RELEASE ${name}`);
        if (!outermost) return;
        this.file.endTransaction(false);
        this.rolledBack = false;
      },
    };
  }

  /** Bytes of SQLite's heap: page cache, schema, statements. */
  get memoryBytes(): number {
    const { engine } = this;
    let bytes = 0;
    const out = engine.put(8);
    for (const op of STATUS_MEMORY) {
      engine.exports.sqlite3_db_status(this.db, op, out, out + 4, 0);
      bytes += engine.readInt(out);
    }
    engine.release();
    return bytes;
  }

  /** Whether nothing is lost if it closes now and the next one starts with `settings`. */
  get mayClose(): boolean {
    return this.depth === 0 && !this.hasTemporary;
  }

  /** Undefined if they are the initial settings of every connection. */
  get settings(): ConnectionSettings | undefined {
    const lastInsertRowid = this.engine.exports.sqlite3_last_insert_rowid(this.db);
    if (this.pragmas === undefined && lastInsertRowid === 0n) return undefined;
    return { pragmas: this.pragmas ?? new Map<string, string>(), lastInsertRowid };
  }

  close(): void {
    this.statements.finalize();
    this.engine.exports.sqlite3_close_v2(this.db);
    this.engine.removeFile(this.name);
  }

  private begin(settings: ConnectionSettings | undefined): void {
    const { exports, authorizer } = this.engine;
    exports.sqlite3__wasm_db_config_pii(this.db, CONFIG_LOOKASIDE, 0, 0, 0);
    exports.sqlite3__wasm_db_config_ip(this.db, CONFIG_FOREIGN_KEYS, 1, 0);
    exports.sqlite3__wasm_db_config_ip(this.db, CONFIG_DEFENSIVE, 1, 0);
    // `WHERE type = "push"` compares with a text, as on the reference's platform.
    exports.sqlite3__wasm_db_config_ip(this.db, CONFIG_DOUBLE_QUOTED_DML, 1, 0);
    exports.sqlite3__wasm_db_config_ip(this.db, CONFIG_DOUBLE_QUOTED_DDL, 1, 0);
    exports.sqlite3__wasm_db_config_ip(this.db, CONFIG_TRUSTED_SCHEMA, 0, 0);
    this.control(SETTINGS);
    const { hardHeapBytesMax } = this.engine;
    if (hardHeapBytesMax !== undefined)
      this.control(`PRAGMA hard_heap_limit = ${hardHeapBytesMax}`);
    exports.sqlite3_set_authorizer(this.db, authorizer, 0);
    if (settings === undefined) return;
    for (const [name, value] of settings.pragmas)
      this.query(`PRAGMA ${name} = '${value.replaceAll("'", "''")}'`, []);
    exports.sqlite3_set_last_insert_rowid(this.db, settings.lastInsertRowid);
  }

  private get autocommit(): boolean {
    return this.engine.exports.sqlite3_get_autocommit(this.db) !== 0;
  }

  private run(
    statement: Statement,
    params: ReadonlyArray<SqlValue | boolean>,
    limits: RowLimits,
  ): SqlResult {
    const { exports } = this.engine;
    const before = statement.readonly ? 0 : exports.sqlite3_total_changes(this.db);
    const { writes } = this.file;
    let rows: SqlValue[][];
    try {
      rows = statement.run(params, (code) => this.failure(code), limits);
    } catch (error) {
      if (this.depth > 0 && this.autocommit) this.rolledBack = true;
      throw error;
    }
    // `sqlite3_changes` keeps an earlier statement's count when this one inserts, updates and
    // deletes nothing.
    const counted = !statement.readonly && exports.sqlite3_total_changes(this.db) !== before;
    return {
      columns: statement.columns(),
      rows,
      // SQLite reports PRAGMA optimize as read-only, but it may write statistics.
      wrote: !statement.readonly || this.file.writes !== writes,
      rowsWritten: counted ? exports.sqlite3_changes(this.db) : 0,
    };
  }

  private prepare(sql: string): {
    readonly statement: Statement | undefined;
    readonly tail: string;
    readonly lasts: boolean;
  } {
    const { engine } = this;
    // SQLite stops reading there, so that later statements would never run.
    if (sql.includes("\0")) throw hasNul();
    try {
      const out = engine.put(8);
      const text = engine.putText(sql);
      engine.refused = undefined;
      engine.lasting = undefined;
      const code = engine.exports.sqlite3_prepare_v3(
        this.db,
        text.at,
        text.length + 1,
        PREPARE_PERSISTENT,
        out,
        out + 4,
      );
      if (code !== SQLITE_OK) throw this.failure(code);
      const at = engine.readInt(out);
      const end = engine.readInt(out + 4);
      const tail = engine.readText(end, text.at + text.length - end);
      // The text after the last statement is usually a line break.
      return {
        statement: at === 0 ? undefined : new Statement(engine, at),
        tail: tail.trimStart(),
        lasts: this.note(engine.lasting),
      };
    } finally {
      engine.release();
    }
  }

  /** Records a lasting effect. Returns whether there is one. */
  private note(lasting: Lasting | undefined): boolean {
    if (lasting?.kind === "temporary") this.hasTemporary = true;
    // A setting that is set again moves to the end. SQLite ignores `foreign_keys` in a transaction.
    else if (lasting?.kind === "setting" && (this.autocommit || lasting.name !== "foreign_keys")) {
      this.pragmas ??= new Map();
      this.pragmas.delete(lasting.name);
      this.pragmas.set(lasting.name, lasting.value);
    }
    return lasting !== undefined;
  }

  /** Runs SQL of the runtime, which the authorizer does not check. */
  private control(sql: string): void {
    const { engine } = this;
    engine.internal = true;
    try {
      const code = engine.exports.sqlite3_exec(this.db, engine.putText(sql).at, 0, 0, 0);
      if (code !== SQLITE_OK) throw this.failure(code);
    } finally {
      engine.internal = false;
      engine.release();
    }
  }

  /** The error of a result code. An error below SQLite takes precedence over SQLite's own. */
  private failure(code: number): unknown {
    if (this.file.failure !== undefined) return this.file.failure;
    const { engine, db } = this;
    if ((code & 0xff) === RESULT_AUTH && engine.refused !== undefined)
      return new SqliteError(engine.refused, code);
    const message = engine.readCString(engine.exports.sqlite3_errmsg(db));
    if ((code & 0xff) === RESULT_FULL && !this.file.overflowed) return hasNoPages(message, code);
    const place = placeAndCode(code, engine.exports.sqlite3_error_offset(db), engine.codeName);
    return new SqliteError(message + place, code);
  }
}

const isThenable = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  "then" in value &&
  typeof value.then === "function";
