/**
 * One SQLite connection over a `PageFile`: settings, prepared statements, queries, transactions.
 *
 * Settings, and why: `journal_mode` MEMORY, since rollback is all that a journal is for here (the page
 * file keeps uncommitted pages apart, so nothing half-written is ever committed); `synchronous` OFF,
 * durability being the journal event's; `locking_mode` EXCLUSIVE, nobody else opens it; no lookaside,
 * 48 KB that a thousand idle agents would each hold; a page cache that grows page by page. As in Durable
 * Objects, foreign keys are enforced. Schemas are not trusted, and the file's internals are read-only.
 *
 * Temporary tables live in memory and go with the agent when it hibernates; so do settings made by PRAGMA. A
 * connection that closes sooner, for room (`OpenConnections`), says what the next one has to begin with.
 */
import type { SqlResult, SqlValue } from "../../core/database/Databases.ts";
import { IMAGE_BYTES_MAX } from "../../schemas/PageDelta.ts";
import type { Lasting } from "./authorize.ts";
import { SQLITE_OK, type Engine } from "./Engine.ts";
import type { PageFile } from "./PageFile.ts";
import { PAGE_SIZE } from "./PagePool.ts";
import { RESULT_ABORT_ROLLBACK, RESULT_AUTH, RESULT_FULL, SqliteError } from "./SqliteError.ts";
import { Statement } from "./Statement.ts";

const OPEN_READWRITE_CREATE = 0x2 | 0x4;
const OPEN_EXTENDED_CODES = 0x0200_0000;
const CONFIG_LOOKASIDE = 1001;
const CONFIG_FOREIGN_KEYS = 1002;
const CONFIG_DEFENSIVE = 1010;
const CONFIG_TRUSTED_SCHEMA = 1017;
const PREPARE_PERSISTENT = 1;
/** `sqlite3_db_status`: page cache, schema, statements, in bytes. */
const STATUS_MEMORY = [1, 2, 3];

/** Pages in SQLite's cache, 256 KiB: past it a read costs a copy from the page file. */
const CACHE_PAGES = 64;
/** Statements kept prepared: by count, for lookups; by heap, because a wide one takes 10 KB. */
const STATEMENTS_MAX = 64;
const STATEMENT_BYTES_MAX = 96 * 1024;

/** A cache of two pages takes no block in advance; page 1 is then read, and later pages come one by one. */
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

/** SQLite's own words would send people to look at their disks. */
const MOST = ` (an agent's database holds at most ${IMAGE_BYTES_MAX / 2 ** 20} MiB: delete rows, or spread them over more agents)`;

/** What a connection has that the database has not. */
export interface ConnectionSettings {
  /** By PRAGMA, in the order they were set. */
  readonly pragmas: ReadonlyMap<string, string>;
  readonly lastInsertRowid: bigint;
}

export class Connection {
  private readonly engine: Engine;
  private readonly file: PageFile;
  private readonly name: string;
  private readonly db: number;
  /** By SQL text, the longest unused first. */
  private readonly statements = new Map<string, Statement>();
  private statementBytes = 0;
  /** Of kept statements. */
  private uses = 0;
  private depth = 0;
  /** SQLite rolled the transaction back by itself (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), a full disk). */
  private rolledBack = false;
  private hasTemporary = false;
  private pragmas: Map<string, string> | undefined;

  /** `settings`: of the connection before this one. */
  constructor(engine: Engine, file: PageFile, settings?: ConnectionSettings) {
    this.engine = engine;
    this.file = file;
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
      // No room, or a page that can't be read: whoever tries again begins anew.
      this.close();
      throw error;
    }
  }

  /** As `AgentDatabase.query`. */
  query(sql: string, params: ReadonlyArray<SqlValue | boolean>): SqlResult {
    if (this.rolledBack) throw rolledBack();
    const known = this.statements.get(sql);
    if (known !== undefined) {
      known.used = ++this.uses;
      return this.run(known, params);
    }
    let result: SqlResult = { columns: [], rows: [], wrote: false, rowsWritten: 0 };
    let first = true;
    for (let rest = sql; rest.length > 0;) {
      const { statement, tail, lasts } = this.prepare(rest);
      if (statement !== undefined) {
        // What lasts is prepared each time, so that it is seen each time.
        const whole = first && tail.length === 0 && !lasts;
        if (whole) this.keep(sql, statement);
        try {
          const last = this.run(statement, first ? params : []);
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
    if (this.statementBytes > STATEMENT_BYTES_MAX) this.evict();
    return result;
  }

  /** As `AgentDatabase.transaction`. */
  transaction<A>(f: () => A): A {
    if (this.rolledBack) throw rolledBack();
    const outermost = this.depth === 0;
    if (outermost) this.file.beginTransaction();
    const name = `level${this.depth}`;
    try {
      this.control(outermost ? "BEGIN" : `SAVEPOINT ${name}`);
      this.depth++;
      let result: A;
      try {
        result = f();
        if (isThenable(result))
          throw new TypeError(
            "transactionSync takes a synchronous function: it would end at the first await",
          );
        if (this.rolledBack) throw rolledBack();
      } finally {
        this.depth--;
      }
      this.control(outermost ? "COMMIT" : `RELEASE ${name}`);
      if (outermost) this.file.endTransaction(true);
      return result;
    } catch (error) {
      if (!this.rolledBack && !this.autocommit)
        this.control(outermost ? "ROLLBACK" : `ROLLBACK TO ${name};RELEASE ${name}`);
      if (outermost) {
        this.file.endTransaction(false);
        this.rolledBack = false;
      }
      throw error;
    }
  }

  /** Bytes of heap: page cache, schema, statements. */
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

  /** Nothing is lost if it closes now and the next one begins with `settings`. */
  get mayClose(): boolean {
    return this.depth === 0 && !this.hasTemporary;
  }

  /** Undefined: as every connection begins. */
  get settings(): ConnectionSettings | undefined {
    const lastInsertRowid = this.engine.exports.sqlite3_last_insert_rowid(this.db);
    if (this.pragmas === undefined && lastInsertRowid === 0n) return undefined;
    return { pragmas: this.pragmas ?? new Map<string, string>(), lastInsertRowid };
  }

  close(): void {
    for (const statement of this.statements.values()) statement.finalize();
    this.statements.clear();
    this.engine.exports.sqlite3_close_v2(this.db);
    this.engine.removeFile(this.name);
  }

  private begin(settings: ConnectionSettings | undefined): void {
    const { exports, authorizer } = this.engine;
    exports.sqlite3__wasm_db_config_pii(this.db, CONFIG_LOOKASIDE, 0, 0, 0);
    exports.sqlite3__wasm_db_config_ip(this.db, CONFIG_FOREIGN_KEYS, 1, 0);
    exports.sqlite3__wasm_db_config_ip(this.db, CONFIG_DEFENSIVE, 1, 0);
    exports.sqlite3__wasm_db_config_ip(this.db, CONFIG_TRUSTED_SCHEMA, 0, 0);
    this.control(SETTINGS);
    exports.sqlite3_set_authorizer(this.db, authorizer, 0);
    if (settings === undefined) return;
    for (const [name, value] of settings.pragmas)
      this.query(`PRAGMA ${name} = '${value.replaceAll("'", "''")}'`, []);
    exports.sqlite3_set_last_insert_rowid(this.db, settings.lastInsertRowid);
  }

  private get autocommit(): boolean {
    return this.engine.exports.sqlite3_get_autocommit(this.db) !== 0;
  }

  private run(statement: Statement, params: ReadonlyArray<SqlValue | boolean>): SqlResult {
    const { exports } = this.engine;
    const before = statement.readonly ? 0 : exports.sqlite3_total_changes(this.db);
    const { writes } = this.file;
    let rows: SqlValue[][];
    try {
      rows = statement.run(params, (code) => this.failure(code));
    } catch (error) {
      if (this.depth > 0 && this.autocommit) this.rolledBack = true;
      throw error;
    }
    // `sqlite3_changes` keeps the count of an earlier statement when this one is not of its kind.
    const counted = !statement.readonly && exports.sqlite3_total_changes(this.db) !== before;
    return {
      columns: statement.columns(),
      rows,
      // SQLite calls PRAGMA optimize read-only, which may write statistics.
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
      // What is left after the last statement is usually a line's end.
      return {
        statement: at === 0 ? undefined : new Statement(engine, at),
        tail: tail.trimStart(),
        lasts: this.note(engine.lasting),
      };
    } finally {
      engine.release();
    }
  }

  private note(lasting: Lasting | undefined): boolean {
    if (lasting?.kind === "temporary") this.hasTemporary = true;
    // Set again, it goes to the end.
    else if (lasting?.kind === "setting") {
      this.pragmas ??= new Map();
      this.pragmas.delete(lasting.name);
      this.pragmas.set(lasting.name, lasting.value);
    }
    return lasting !== undefined;
  }

  private keep(sql: string, statement: Statement): void {
    statement.used = ++this.uses;
    this.statements.set(sql, statement);
    this.statementBytes += statement.bytes;
    if (this.statements.size > STATEMENTS_MAX) this.evict();
  }

  /** Drops the longest unused, never the last one. */
  private evict(): void {
    const longestUnused = [...this.statements].toSorted(([, a], [, b]) => a.used - b.used);
    for (const [sql, statement] of longestUnused) {
      const fits =
        this.statements.size <= STATEMENTS_MAX && this.statementBytes <= STATEMENT_BYTES_MAX;
      if (fits || this.statements.size === 1) return;
      this.statements.delete(sql);
      this.statementBytes -= statement.bytes;
      statement.finalize();
    }
  }

  /** Our own SQL. */
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

  /** What went wrong below SQLite comes before what SQLite made of it. */
  private failure(code: number): unknown {
    if (this.file.failure !== undefined) return this.file.failure;
    const { engine } = this;
    if ((code & 0xff) === RESULT_AUTH && engine.refused !== undefined)
      return new SqliteError(engine.refused, code);
    const message = engine.readCString(engine.exports.sqlite3_errmsg(this.db));
    const hasNoPages = (code & 0xff) === RESULT_FULL && !this.file.overflowed;
    return new SqliteError(hasNoPages ? message + MOST : message, code);
  }
}

const rolledBack = (): SqliteError =>
  new SqliteError(
    "The transaction was rolled back by the statement that failed in it: let the error end the function",
    RESULT_ABORT_ROLLBACK,
  );

const isThenable = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  "then" in value &&
  typeof value.then === "function";
