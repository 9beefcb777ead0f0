/**
 * One prepared statement. A run binds the parameters, steps to the end, and always resets before it
 * returns, so no statement is left open across an error or a commit.
 *
 * Integers are returned as JavaScript numbers, so those beyond 2^53 lose their last digits;
 * selecting such a column as text keeps them. A number that is an integer within 2^53 binds as
 * INTEGER, any other number as REAL, a bigint as INTEGER, a boolean as 0 or 1. Blobs are copied in
 * both directions.
 */
import { TooManyBytes, TooManyRows, type SqlValue } from "../../core/database/Databases.ts";
import type { Engine } from "./Engine.ts";
import { RESULT_MISMATCH, SqliteError, wrongBindings } from "./SqliteError.ts";

const ROW = 100;
const DONE = 101;
const INTEGER = 1;
const FLOAT = 2;
const TEXT = 3;
const BLOB = 4;
/** `sqlite3_stmt_status`: number of re-preparations (the schema changed); bytes of heap. */
const STATUS_REPREPARE = 5;
const STATUS_MEMUSED = 99;
/** The bound memory is valid until the statement is reset, so SQLite need not copy it. */
const STATIC = 0;
const INT32_MAX = 2 ** 31 - 1;
const INT64_MAX = 2n ** 63n - 1n;

/** Bytes that each value takes in addition to its text. */
const NUMBER_BYTES = 8;

export interface RowLimits {
  readonly rowsMax?: number | undefined;
  readonly bytesMax?: number | undefined;
}

export class Statement {
  readonly readonly: boolean;
  /** Bytes of SQLite's heap. */
  readonly bytes: number;
  /** Its connection's `uses` at the last use. */
  used = 0;
  /** How many values it takes. */
  readonly parameters: number;
  private names: ReadonlyArray<string> | undefined;
  private prepares = 0;

  constructor(
    private readonly engine: Engine,
    private readonly at: number,
  ) {
    const { exports } = engine;
    this.readonly = exports.sqlite3_stmt_readonly(at) !== 0;
    this.parameters = exports.sqlite3_bind_parameter_count(at);
    this.bytes = exports.sqlite3_stmt_status(at, STATUS_MEMUSED, 0);
  }

  /**
   * Runs the statement to its end and returns the rows. Throws what `fail` returns for an error
   * code, `SqliteError` for parameters that do not bind, `TooManyRows` or `TooManyBytes`.
   */
  run(
    params: ReadonlyArray<SqlValue | boolean>,
    fail: (code: number) => unknown,
    { rowsMax = Infinity, bytesMax = Infinity }: RowLimits = {},
  ): SqlValue[][] {
    const { engine, at } = this;
    // A statement has made all of its writes before its first row.
    const most = this.readonly ? rowsMax : Infinity;
    const { exports } = engine;
    const rows: SqlValue[][] = [];
    let bytesLeft = bytesMax;
    try {
      this.bind(params);
      for (;;) {
        engine.stepping = true;
        const code = exports.sqlite3_step(at);
        engine.stepping = false;
        if (code === DONE) return rows;
        if (code !== ROW) throw fail(code);
        if (rows.length >= most) throw new TooManyRows();
        // Checked before the values are copied, since one of them may have a gigabyte.
        if (bytesMax !== Infinity && (bytesLeft -= this.rowBytes()) < 0) throw new TooManyBytes();
        rows.push(this.row());
      }
    } finally {
      engine.stepping = false;
      exports.sqlite3_reset(at);
      if (this.parameters > 0) exports.sqlite3_clear_bindings(at);
      engine.release();
    }
  }

  /** Names of the result's columns, as of the last run. */
  columns(): ReadonlyArray<string> {
    const { exports } = this.engine;
    const prepares = exports.sqlite3_stmt_status(this.at, STATUS_REPREPARE, 0);
    if (this.names === undefined || prepares !== this.prepares) {
      this.prepares = prepares;
      const count = exports.sqlite3_column_count(this.at);
      this.names = Array.from({ length: count }, (_, i) =>
        this.engine.readCString(exports.sqlite3_column_name(this.at, i)),
      );
    }
    return this.names;
  }

  finalize(): void {
    this.engine.exports.sqlite3_finalize(this.at);
  }

  private rowBytes(): number {
    const { exports } = this.engine;
    const count = exports.sqlite3_column_count(this.at);
    let bytes = count * NUMBER_BYTES;
    for (let i = 0; i < count; i++)
      if (exports.sqlite3_column_type(this.at, i) >= TEXT)
        bytes += exports.sqlite3_column_bytes(this.at, i);
    return bytes;
  }

  private row(): SqlValue[] {
    const { engine, at } = this;
    const { exports } = engine;
    // Read for each row, because a schema change between preparing and the first step may change
    // it.
    const count = exports.sqlite3_column_count(at);
    const row: SqlValue[] = [];
    for (let i = 0; i < count; i++) {
      switch (exports.sqlite3_column_type(at, i)) {
        case INTEGER:
        case FLOAT:
          row.push(exports.sqlite3_column_double(at, i));
          break;
        case TEXT: {
          const text = exports.sqlite3_column_text(at, i);
          row.push(engine.readText(text, exports.sqlite3_column_bytes(at, i)));
          break;
        }
        case BLOB: {
          const blob = exports.sqlite3_column_blob(at, i);
          const end = blob + exports.sqlite3_column_bytes(at, i);
          // Not `slice`, which would return a view, because the heap is a Buffer.
          row.push(new Uint8Array(engine.bytes.subarray(blob, end)));
          break;
        }
        default:
          row.push(null);
      }
    }
    return row;
  }

  private bind(params: ReadonlyArray<SqlValue | boolean>): void {
    if (params.length !== this.parameters) throw wrongBindings(this.parameters, params.length);
    for (let i = 0; i < params.length; i++) this.bindOne(i + 1, params[i]!);
  }

  private bindOne(index: number, value: SqlValue | boolean): void {
    const { engine, at } = this;
    const { exports } = engine;
    let code: number;
    if (value === null) code = exports.sqlite3_bind_null(at, index);
    else if (typeof value === "string") {
      const text = engine.putText(value);
      code = exports.sqlite3_bind_text(at, index, text.at, text.length, STATIC);
    } else if (typeof value === "number") {
      if (!Number.isSafeInteger(value)) code = exports.sqlite3_bind_double(at, index, value);
      else if (Math.abs(value) <= INT32_MAX) code = exports.sqlite3_bind_int(at, index, value);
      else code = exports.sqlite3_bind_int64(at, index, BigInt(value));
    } else if (typeof value === "boolean")
      code = exports.sqlite3_bind_int(at, index, value ? 1 : 0);
    else if (typeof value === "bigint") {
      if (value > INT64_MAX || value < -INT64_MAX - 1n)
        throw new SqliteError(`${value} does not fit in 64 bits`, RESULT_MISMATCH);
      code = exports.sqlite3_bind_int64(at, index, value);
    } else if (value instanceof Uint8Array)
      code = exports.sqlite3_bind_blob(at, index, engine.putBytes(value), value.length, STATIC);
    else
      throw new SqliteError(
        `Parameter ${index} is ${typeof value}: SQLite accepts null, numbers, bigints, strings, booleans and Uint8Arrays`,
        RESULT_MISMATCH,
      );
    if (code !== 0) throw new SqliteError(`Parameter ${index} is too large`, code);
  }
}
