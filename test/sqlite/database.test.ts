import { beforeEach, describe, expect, it } from "vitest";
import { Connection } from "../../services/sqlite/Connection.ts";
import { loadEngine } from "../../services/sqlite/Engine.ts";
import { applyPageDelta, hashImage } from "../kit/pages.ts";
import { ImageStore } from "../../services/sqlite/ImageStore.ts";
import { databases, db, openForEach } from "./eachDatabase.ts";
import { column, commit, REPO } from "./kit.ts";

openForEach();

describe("a query", () => {
  it("runs several statements: each takes its parameters in order, rows come from the last", () => {
    db.query("CREATE TABLE t (a)", []);
    const result = db.query(
      "INSERT INTO t VALUES (?); SELECT a AS x, a + 1 AS y FROM t; -- end\n",
      [5],
    );
    expect(result).toEqual({ columns: ["x", "y"], rows: [[5, 6]], wrote: true, rowsWritten: 1 });
    db.query("CREATE TABLE IF NOT EXISTS u (a); INSERT INTO u VALUES (?)", [6]);
    db.query("DELETE FROM u WHERE a = ?; INSERT INTO u VALUES (?), (?);\n", [6, 7, 8]);
    expect(column(db, "SELECT a FROM u")).toEqual([7, 8]);
  });

  it("refuses parameters that no statement has, and a statement that lacks one", () => {
    db.query("CREATE TABLE t (a)", []);
    const wrong = "Wrong number of parameter bindings";
    expect(() => db.query("SELECT 1; INSERT INTO t VALUES (?)", [1, 2])).toThrow(wrong);
    expect(() => db.query("SELECT ?; INSERT INTO t VALUES (?)", [1])).toThrow(wrong);
    expect(column(db, "SELECT a FROM t")).toEqual([]);
    expect(() => db.query("SELECT ?; -- a comment", [1, 2])).toThrow(wrong);
  });

  it("takes a double-quoted name that is no column for a text, also in a schema", () => {
    db.query('CREATE TABLE t (a TEXT DEFAULT "x" CHECK (a IN ("x", "y")))', []);
    db.query("INSERT INTO t DEFAULT VALUES", []);
    expect(db.query('SELECT "a", "b" FROM t WHERE a = "x"', []).rows).toEqual([["x", "b"]]);
  });

  it("returns each kind of value as it was bound", () => {
    const blob = Uint8Array.of(0, 1, 255);
    const values = [null, 1, -1.5, 2 ** 40, "żółć \0 😀", blob, true, false, 2n ** 40n, ""];
    const sql = `SELECT ${values.map(() => "?").join(",")}`;
    expect(db.query(sql, values).rows).toEqual([
      [null, 1, -1.5, 2 ** 40, "żółć \0 😀", blob, 1, 0, 2 ** 40, ""],
    ]);
    expect(column(db, "SELECT typeof(x'') || length(x'')")).toEqual(["blob0"]);
    expect(db.query("SELECT typeof(?), typeof(?)", [1, 1.5]).rows).toEqual([["integer", "real"]]);
    expect(db.query("SELECT ?", [new Uint8Array(0)]).rows).toEqual([[new Uint8Array(0)]]);
  });

  it("returns integers past 2^53 as the nearest number, and stores a bigint exactly", () => {
    db.query("CREATE TABLE t (a); ", []);
    db.query("INSERT INTO t VALUES (?)", [2n ** 53n + 1n]);
    expect(db.query("SELECT a, CAST(a AS TEXT) FROM t", []).rows).toEqual([
      [2 ** 53, "9007199254740993"],
    ]);
    expect(() => db.query("SELECT ?", [2n ** 63n])).toThrow("does not fit in 64 bits");
  });

  it("refuses SQL with a NUL, where SQLite would stop reading it", () => {
    for (const sql of ["SELECT 1\0", "SELECT 'a\0b'", "SELECT 1;\0SELECT 2"]) {
      const reason = "SQL can't contain the character NUL";
      expect(() => db.read(sql, { rowsMax: 1, timeMsMax: 1_000 })).toThrow(reason);
      expect(() => db.query(sql, [])).toThrow(reason);
    }
  });

  it("refuses a wrong number of parameters and values that SQLite has no type for", () => {
    expect(() => db.query("SELECT ?", [])).toThrow("Wrong number of parameter bindings");
    expect(() => db.query("SELECT ?", [1, 2])).toThrow("Wrong number of parameter bindings");
    expect(() => db.query("SELECT ?", [{} as never])).toThrow("Parameter 1 is object");
  });

  it("that fails changes nothing, says why with SQLite's code, and leaves the database usable", () => {
    db.query("CREATE TABLE t (a UNIQUE CHECK (a < 10))", []);
    expect(() => db.query("INSERT INTO t VALUES (1), (2), (1)", [])).toThrow(
      expect.objectContaining({
        message:
          "UNIQUE constraint failed: t.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_UNIQUE)",
        resultCode: 2067,
      }),
    );
    expect(() => db.query("SELECT * FROM nowhere", [])).toThrow(
      expect.objectContaining({
        message: "no such table: nowhere: SQLITE_ERROR",
        resultCode: 1,
      }),
    );
    expect(column(db, "SELECT count(*) FROM t")).toEqual([0]);
    expect(db.query("DROP TABLE t", []).wrote).toBe(true);
  });

  it("that runs out of pages reports the maximum database size, and changes nothing", async () => {
    const engine = await loadEngine();
    const connection = new Connection(
      engine,
      new ImageStore(engine, undefined, { residentBytesMax: 0, heapBytesMax: 0 }).pageFile(
        REPO,
        undefined,
      ),
    );
    engine.internal = true; // agents may not say how large they may be
    connection.query("PRAGMA max_page_count = 4", []);
    engine.internal = false;
    connection.query("CREATE TABLE big (bytes BLOB)", []);
    expect(() => connection.query("INSERT INTO big VALUES (zeroblob(100000))", [])).toThrow(
      "database or disk is full (an agent's database holds at most 1024 MiB: delete rows, or spread them over more agents)",
    );
    expect(connection.query("SELECT count(*) FROM big", []).rows).toEqual([[0]]);
    connection.close();
  });

  it.each([
    ["at its end", 100_000],
    ["while SQLite's cache spills", 5_000_000],
  ])("past the limit of uncommitted bytes fails %s, and changes nothing", (_when, bytes) => {
    db.query("CREATE TABLE t (a, b)", []);
    db.query("INSERT INTO t VALUES (1, zeroblob(20000))", []);
    const before = db.image();
    db.uncommittedBytesMax = 64 * 1024;
    expect(() => db.query("UPDATE t SET b = randomblob(?)", [bytes])).toThrow("full");
    expect(db.overflowed).toBe(true);
    db.uncommittedBytesMax = Infinity;
    expect(db.overflowed).toBe(false);
    expect(column(db, "PRAGMA integrity_check")).toEqual(["ok"]);
    expect(column(db, "SELECT hex(b) = hex(zeroblob(20000)) FROM t")).toEqual([1]);
    expect(db.image()).toEqual(before);
    // So in a transaction, whose pages are written at its end; and what fits is taken.
    const fill = (size: number) => () =>
      db.transaction(() => {
        db.query("INSERT INTO t VALUES (2, randomblob(?))", [size]);
        db.uncommittedBytesMax = 64 * 1024;
      });
    expect(fill(bytes)).toThrow("full");
    db.uncommittedBytesMax = Infinity;
    expect(column(db, "SELECT a FROM t")).toEqual([1]);
    fill(1000)();
    db.uncommittedBytesMax = Infinity;
    expect(column(db, "SELECT a FROM t")).toEqual([1, 2]);
    commit(db);
    expect(column(db, "PRAGMA integrity_check")).toEqual(["ok"]);
  });

  it("over many rows that fails midway leaves no statement open", () => {
    db.query("CREATE TABLE t (a); INSERT INTO t VALUES ('1'), ('x')", []);
    const sql = "SELECT json_extract(CASE a WHEN 'x' THEN '{' ELSE '[1]' END, '$') FROM t";
    for (let i = 0; i < 3; i++) expect(() => db.query(sql, [])).toThrow("malformed JSON");
    expect(() => db.query("VACUUM", [])).not.toThrow();
  });

  it("prepared before a schema change sees the new columns", () => {
    db.query("CREATE TABLE t (a); INSERT INTO t VALUES (1)", []);
    expect(db.query("SELECT * FROM t", []).columns).toEqual(["a"]);
    db.query("ALTER TABLE t ADD COLUMN b DEFAULT 2", []);
    expect(db.query("SELECT * FROM t", [])).toMatchObject({ columns: ["a", "b"], rows: [[1, 2]] });
    db.query("ALTER TABLE t RENAME COLUMN b TO c", []);
    expect(db.query("SELECT * FROM t", []).columns).toEqual(["a", "c"]);
  });

  it("that writes to what SQLite calls read-only reports that it writes", () => {
    db.query("CREATE TABLE t (a PRIMARY KEY, b); INSERT INTO t VALUES (1, 2), (3, 4)", []);
    expect(db.query("SELECT * FROM t", []).wrote).toBe(false);
    expect(db.query("PRAGMA optimize(0x10002)", []).wrote).toBe(true);
    expect(column(db, "SELECT tbl FROM sqlite_stat1")).toEqual(["t"]);
  });

  it("counts the rows that it changed, not those of the previous statement", () => {
    db.query("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)", []);
    expect(db.query("UPDATE t SET a = 0 WHERE a > 1", []).rowsWritten).toBe(2);
    expect(db.query("DELETE FROM t WHERE a = 9", []).rowsWritten).toBe(0);
    expect(db.query("CREATE INDEX i ON t (a)", []).rowsWritten).toBe(0);
    expect(db.query("SELECT * FROM t", [])).toMatchObject({ wrote: false, rowsWritten: 0 });
  });

  it("runs any number of different statements with a bounded cache of prepared ones", () => {
    db.query("SELECT 1", []);
    const before = db.memoryBytes;
    for (let i = 0; i < 2_000; i++) db.query(`SELECT ${i} AS c${i}`, []);
    expect(db.memoryBytes - before).toBeLessThan(250_000);
  });

  it("has FTS5, JSON, mathematics, window functions, R-trees, and real time and randomness", () => {
    db.query("CREATE VIRTUAL TABLE f USING fts5(body); INSERT INTO f VALUES ('hello world')", []);
    expect(column(db, "SELECT body FROM f WHERE f MATCH 'hello'")).toEqual(["hello world"]);
    expect(column(db, "SELECT json_extract('{\"a\":[1,2]}', '$.a[1]')")).toEqual([2]);
    expect(column(db, "SELECT round(sqrt(2) * 100)")).toEqual([141]);
    expect(column(db, "SELECT row_number() OVER (ORDER BY value) FROM json_each('[3,4]')")).toEqual(
      [1, 2],
    );
    db.query("CREATE VIRTUAL TABLE r USING rtree(id, x0, x1); INSERT INTO r VALUES (1, 0, 2)", []);
    expect(column(db, "SELECT id FROM r WHERE x0 <= 1")).toEqual([1]);
    expect(Math.abs(Number(column(db, "SELECT unixepoch()")[0]) * 1000 - Date.now())).toBeLessThan(
      5000,
    );
    expect(column(db, "SELECT random()")).not.toEqual(column(db, "SELECT random()"));
  });

  it("enforces foreign keys", () => {
    db.query("CREATE TABLE p (id PRIMARY KEY); CREATE TABLE c (p REFERENCES p)", []);
    expect(() => db.query("INSERT INTO c VALUES (1)", [])).toThrow("FOREIGN KEY constraint failed");
  });
});

describe("SQL that would corrupt the journal", () => {
  it.each([
    "BEGIN", "BEGIN IMMEDIATE", "COMMIT", "END", "ROLLBACK", "SAVEPOINT s", "RELEASE s",
  ])("%s is refused, and the message names transactionSync", (sql) => {
    expect(() => db.query(sql, [])).toThrow(
      expect.objectContaining({ message: expect.stringContaining("ctx.storage.transactionSync"), resultCode: 23 }),
    );
  }); // prettier-ignore

  it.each([
    "PRAGMA journal_mode = WAL", "PRAGMA page_size = 8192", "PRAGMA locking_mode = NORMAL",
    "PRAGMA mmap_size = 1000", "PRAGMA writable_schema = ON", "PRAGMA schema_version = 7",
    "PRAGMA hard_heap_limit = 1", "PRAGMA temp_store = FILE", "PRAGMA max_page_count = 5",
    "PRAGMA main.synchronous(FULL)", "PRAGMA wal_checkpoint(FULL)", "PRAGMA cache_size = 100000",
    "PRAGMA trusted_schema = ON",
  ])("%s is refused", (sql) => {
    expect(() => db.query(sql, [])).toThrow(/PRAGMA \w+ can't be set/);
  }); // prettier-ignore

  it.each([
    "ATTACH '' AS other", "ATTACH 'x.db' AS other", "DETACH main", "VACUUM INTO 'x.db'",
    "SELECT load_extension('x')",
    "UPDATE sqlite_schema SET sql = ''", "UPDATE sqlite_dbpage SET data = x'00' WHERE pgno = 1",
  ])("%s is refused", (sql) => {
    db.query("CREATE TABLE t (a)", []);
    expect(() => db.query(sql, [])).toThrow(/not allowed|no such function|may not be modified|read-only/);
  }); // prettier-ignore

  it.each([
    "PRAGMA table_info(t)", "PRAGMA foreign_keys", "PRAGMA foreign_keys = OFF",
    "PRAGMA user_version = 3", "PRAGMA user_version", "PRAGMA index_list(t)", "PRAGMA table_list",
    "PRAGMA integrity_check", "PRAGMA quick_check(1)", "PRAGMA journal_mode", "PRAGMA page_size",
    "PRAGMA defer_foreign_keys = ON", "PRAGMA optimize", "SELECT * FROM pragma_table_info('t')",
    "ANALYZE", "REINDEX", "VACUUM", "EXPLAIN QUERY PLAN SELECT * FROM t",
    "CREATE TEMP TABLE s AS SELECT 1",
  ])("%s works", (sql) => {
    db.query("CREATE TABLE t (a)", []);
    expect(() => db.query(sql, [])).not.toThrow();
  }); // prettier-ignore
});

describe("a transaction", () => {
  beforeEach(() => void db.query("CREATE TABLE t (a UNIQUE)", []));
  const add = (a: number): unknown => db.query("INSERT INTO t VALUES (?)", [a]);
  const rows = (): unknown[] => column(db, "SELECT a FROM t ORDER BY a");

  it("keeps all that its function wrote and returns what it returned", () => {
    expect(db.transaction(() => (add(1), add(2), "done"))).toBe("done");
    expect(rows()).toEqual([1, 2]);
  });

  it("whose function throws undoes all and throws the same", () => {
    const error = new Error("no");
    expect(() => db.transaction(() => (add(1), raise(error)))).toThrow(error);
    expect(rows()).toEqual([]);
  });

  it("nested in another undoes only its own part", () => {
    db.transaction(() => {
      add(1);
      expect(() => db.transaction(() => (add(2), raise(new Error("inner"))))).toThrow("inner");
      db.transaction(() => add(3));
    });
    expect(rows()).toEqual([1, 3]);
  });

  it("continues after a failed statement, without it", () => {
    db.transaction(() => {
      add(1);
      expect(() => add(1)).toThrow("UNIQUE");
      add(2);
    });
    expect(rows()).toEqual([1, 2]);
  });

  it("that SQLite rolled back takes no more statements and fails as a whole", () => {
    add(1);
    expect(() =>
      db.transaction(() => {
        add(2);
        expect(() => db.query("INSERT OR ROLLBACK INTO t VALUES (1)", [])).toThrow("UNIQUE");
        expect(() => add(3)).toThrow("was rolled back");
      }),
    ).toThrow("was rolled back");
    expect(rows()).toEqual([1]);
    db.transaction(() => add(4));
    expect(rows()).toEqual([1, 4]);
  });

  it("that violates a deferred constraint fails at its end and undoes everything", () => {
    db.query("CREATE TABLE c (a REFERENCES t (a) DEFERRABLE INITIALLY DEFERRED)", []);
    expect(() => db.transaction(() => void db.query("INSERT INTO c VALUES (7)", []))).toThrow(
      "FOREIGN KEY",
    );
    expect(column(db, "SELECT count(*) FROM c")).toEqual([0]);
  });

  it("of an async function is refused and undone", () => {
    expect(() => db.transaction(async () => void add(1))).toThrow("synchronous");
    expect(rows()).toEqual([]);
  });

  it("larger than every cache is undone byte for byte", () => {
    db.query("CREATE TABLE b (x)", []);
    db.query(
      "INSERT INTO b SELECT randomblob(3000) FROM generate(300)".replace("generate(300)", SERIES),
      [],
    );
    commit(db);
    const before = hashImage(db.image());
    expect(() =>
      db.transaction(() => {
        db.query("UPDATE b SET x = randomblob(5000)", []);
        db.query("DELETE FROM b WHERE rowid % 2", []);
        raise(new Error("no"));
      }),
    ).toThrow("no");
    expect(db.freeze()).toBeUndefined();
    expect(hashImage(db.image())).toBe(before);
    expect(column(db, "PRAGMA integrity_check")).toEqual(["ok"]);
  });
});

describe("create", () => {
  const DDL = "CREATE TABLE IF NOT EXISTS t (a TEXT PRIMARY KEY, b CHECK (b < 5))";
  const ROWS = "INSERT INTO t VALUES ('x', 1), ('y', 2)";

  it("changes an empty database to the same bytes as running the statement does", () => {
    expect(db.isEmpty).toBe(true);
    db.create(DDL);
    expect(db.isEmpty).toBe(false);
    const other = databases.open(REPO).database;
    other.query(DDL, []);
    expect(commit(db)).toEqual(commit(other));
    other.close();
  });

  it.each(["", "SELECT 1", "PRAGMA recursive_triggers = ON", "CREATE TABLE u (a)", DDL])(
    "after: %s; behaves as the statement does",
    (before) => {
      db.query(before, []);
      db.create(DDL);
      db.query(ROWS, []);
      db.create(DDL);
      commit(db);
      expect(() => db.query("INSERT INTO t VALUES ('z', 7)", [])).toThrow("CHECK constraint");
      expect(column(db, "SELECT a FROM t")).toEqual(["x", "y"]);
      expect(column(db, "PRAGMA integrity_check")).toEqual(["ok"]);
    },
  );

  it("in a transaction that fails is undone", () => {
    const fails = (): never => {
      db.transaction(() => {
        db.create(DDL);
        throw new Error("no");
      });
      throw new Error("not reached");
    };
    expect(fails).toThrow("no");
    expect(db.isEmpty).toBe(true);
    db.create(DDL);
    expect(column(db, "SELECT name FROM sqlite_schema WHERE type = 'table'")).toEqual(["t"]);
  });

  it("refuses what the statement refuses, and leaves nothing", () => {
    expect(() => db.create("CREATE TABLE t (")).toThrow("incomplete input");
    expect(db.isEmpty).toBe(true);
    db.create(DDL);
    expect(column(db, "SELECT count(*) FROM t")).toEqual([0]);
  });
});

describe("a freeze", () => {
  it("returns what was written since the last one, and only that is committed", () => {
    db.query("CREATE TABLE t (a)", []);
    expect(db.dirty).toBe(true);
    const first = db.freeze()!;
    expect(db.dirty).toBe(false);
    db.query("INSERT INTO t VALUES (1)", []);
    expect(db.imageBytes).toBe(0);
    db.committed();
    const image = applyPageDelta(new Uint8Array(0), first.delta);
    expect(hashImage(db.image())).toBe(hashImage(image));
    expect(first.pages * 4096).toBe(db.imageBytes);
    const second = commit(db)!;
    expect(hashImage(db.image())).toBe(hashImage(applyPageDelta(image, second)));
  });

  it("is undefined when nothing was written, or nothing changed", () => {
    db.query("CREATE TABLE t (a); INSERT INTO t VALUES (1)", []);
    commit(db);
    expect(db.freeze()).toBeUndefined();
    db.query("UPDATE t SET a = 1", []);
    expect(db.freeze()).toBeUndefined();
    expect(db.dirty).toBe(false);
  });

  it("in the middle of a transaction includes what was written before it", () => {
    db.query("CREATE TABLE t (a); INSERT INTO t VALUES (1)", []);
    db.transaction(() => {
      db.query("INSERT INTO t VALUES (2)", []);
      db.query(
        "CREATE TABLE b AS SELECT randomblob(2000) FROM generate(400)".replace(
          "generate(400)",
          SERIES,
        ),
        [],
      );
      commit(db);
    });
    const early = databases.open(REPO).database;
    early.restore(db.image());
    expect(column(early, "SELECT a FROM t")).toEqual([1]);
    expect(column(early, "PRAGMA integrity_check")).toEqual(["ok"]);
    early.close();
    expect(db.dirty).toBe(true);
    commit(db);
    const late = databases.open(REPO).database;
    late.restore(db.image());
    expect(column(late, "SELECT a FROM t")).toEqual([1, 2]);
    late.close();
  });

  it("can't follow another that is in flight, and a commit needs one", () => {
    db.query("CREATE TABLE t (a)", []);
    db.freeze();
    db.query("INSERT INTO t VALUES (1)", []);
    expect(() => db.freeze()).toThrow("in flight");
    db.committed();
    expect(() => db.committed()).toThrow("no delta is in flight");
  });

  it("of a small change in a large row is small", () => {
    db.query("CREATE TABLE t (id INTEGER PRIMARY KEY, n, x)", []);
    db.query("INSERT INTO t VALUES (1, 0, randomblob(2000000))", []);
    commit(db);
    db.query("UPDATE t SET n = 1", []);
    expect(commit(db)!.length).toBeLessThan(200);
  });
});

describe("replay", () => {
  it("is refused with uncommitted writes, frozen ones too, and in a transaction", () => {
    db.query("CREATE TABLE t (a)", []);
    const refused = () => {
      expect(() => db.apply(new Uint8Array(0))).toThrow("or with uncommitted writes");
      expect(() => db.restore(new Uint8Array(0))).toThrow("or with uncommitted writes");
    };
    refused();
    db.freeze();
    refused();
    db.committed();
    db.transaction(refused);
  });

  it("is visible to the next query, whatever SQLite had cached", () => {
    const other = databases.open(REPO).database;
    const deltas = ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"].map((sql) => {
      other.query(sql, []);
      return commit(other)!;
    }); // prettier-ignore
    const copy = databases.open(REPO).database;
    const seen = deltas.map((delta) => {
      copy.apply(delta);
      return copy.query("SELECT count(*) FROM t", []).rows[0]![0];
    });
    copy.restore(new Uint8Array(0));
    expect(seen).toEqual([0, 1, 2]);
    expect(copy.query("SELECT count(*) FROM sqlite_master", []).rows).toEqual([[0]]);
    other.close();
    copy.close();
  });

  it("rejects an image that is not whole pages, and a delta for another image", () => {
    expect(() => db.restore(new Uint8Array(5000))).toThrow("5000 bytes");
    const other = databases.open(REPO).database;
    other.query("CREATE TABLE t (a)", []);
    const delta = commit(other)!;
    other.close();
    db.apply(delta);
    expect(() => db.apply(delta)).toThrow("damaged page delta");
    expect(column(db, "SELECT count(*) FROM t")).toEqual([0]);
  });

  it("does not open SQLite before the first query", () => {
    const other = databases.open(REPO).database;
    other.query("CREATE TABLE t (a)", []);
    db.apply(commit(other)!);
    other.close();
    expect(db.memoryBytes).toBeLessThan(16_000);
  });
});

it("a closed database rejects everything", () => {
  const closed = databases.open(REPO).database;
  closed.query("CREATE TABLE t (a)", []);
  closed.close();
  closed.close();
  expect(() => closed.query("SELECT 1", [])).toThrow("closed");
  expect(() => closed.image()).toThrow("closed");
});

/** 300 rows and more. */
const SERIES =
  "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) SELECT i FROM n)";

function raise(error: Error): never {
  throw error;
}
