/** SQL and storage as an agent's code sees them. */
import { beforeAll, describe, expect, test } from "vitest";
import { Agent, getAgentByName, SqlError, type AgentNamespace } from "agents";
import { journalOf, useSystems } from "./kit.ts";

interface Env {
  readonly SqlAgent: AgentNamespace<SqlAgent>;
}

const told = (error: unknown) => {
  if (!(error instanceof SqlError)) throw error;
  return { name: error.name, query: error.query, message: error.message };
};

class SqlAgent extends Agent<Env> {
  override onStart() {
    this.sql`CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY, value)`;
  }
  types() {
    const values = [1, 1.5, "text", "", true, false, null, 2 ** 40];
    for (const value of values) this.sql`INSERT INTO things (value) VALUES (${value})`;
    const rows = this.sql<{ value: unknown; type: string }>`
      SELECT value, typeof(value) AS type FROM things ORDER BY id`;
    return { isArray: Array.isArray(rows), rows: [...rows].map((r) => [r.value, r.type]) };
  }
  injected(text: string) {
    this.sql`INSERT INTO things (value) VALUES (${text})`;
    return this.sql`SELECT value FROM things WHERE value = ${text}`;
  }
  empty() {
    return [this.sql`SELECT * FROM things WHERE 0`, this.sql`DELETE FROM things WHERE 0`];
  }
  wrong() {
    const outcomes = [];
    for (const run of [
      () => this.sql`SELEC 1`,
      () => this.sql`SELECT ${1} FROM nowhere`,
      () => this.sql`INSERT INTO things (id) VALUES (${7}), (${7})`,
      () => this.sql`BEGIN`,
    ])
      try {
        run();
        outcomes.push("ran");
      } catch (error) {
        outcomes.push(told(error));
      }
    return { outcomes, left: this.sql`SELECT count(*) AS n FROM things` };
  }
  called(text: string) {
    return this.sql(text as unknown as TemplateStringsArray);
  }
  cursor() {
    const { sql } = this.ctx.storage;
    sql.exec("INSERT INTO things VALUES (?, ?), (?, ?)", 1, "a", 2, "b");
    const cursor = sql.exec<{ id: number; value: string }>("SELECT * FROM things ORDER BY id");
    const messageOf = (f: () => unknown): string => {
      try {
        return `returned ${String(f())}`;
      } catch (error) {
        return (error as Error).message;
      }
    };
    const several = messageOf(() => sql.exec("SELECT * FROM things").one());
    const wrong = messageOf(() => sql.exec("SELECT nothing FROM nowhere"));
    return {
      columns: cursor.columnNames,
      first: cursor.next().value,
      rest: [...cursor],
      one: sql.exec("SELECT count(*) AS n FROM things").one(),
      raw: [...sql.exec("SELECT id, value FROM things ORDER BY id").raw()],
      written: sql.exec("UPDATE things SET value = 'c'").rowsWritten,
      blob: [
        ...(sql.exec("SELECT ? AS b", new Uint8Array([1, 2]).buffer).one()["b"] as Uint8Array),
      ],
      views: [
        new Uint16Array([1, 2]),
        new DataView(new ArrayBuffer(4), 1, 2),
        Buffer.from("ab"),
      ].map((view) => this.sql<{ hex: string }>`SELECT hex(${view}) AS hex`[0]!.hex),
      several,
      wrong,
    };
  }
  transaction() {
    const { storage } = this.ctx;
    let thrown = "";
    try {
      storage.transactionSync(() => {
        this.sql`INSERT INTO things VALUES (1, 'kept?')`;
        throw new Error("rolled back");
      });
    } catch (error) {
      thrown = (error as Error).message;
    }
    const result = storage.transactionSync(() => {
      this.sql`INSERT INTO things VALUES (2, 'outer')`;
      try {
        storage.transactionSync(() => {
          this.sql`INSERT INTO things VALUES (3, 'inner')`;
          throw new Error("inner");
        });
      } catch {
        // Only the inner one is undone.
      }
      return "result";
    });
    return { thrown, result, rows: this.sql`SELECT id FROM things ORDER BY id` };
  }
  async kv() {
    const { storage } = this.ctx;
    await storage.put("a", { n: 1 });
    await storage.put({ "b/1": [1], "b/2": null, "c%": "text" });
    return {
      get: await storage.get("a"),
      absent: (await storage.get("nothing")) === undefined,
      several: [...(await storage.get(["a", "b/2", "nothing"]))],
      list: [...(await storage.list({ prefix: "b/" }))],
      reversed: [...(await storage.list({ reverse: true, limit: 2 })).keys()],
      range: [...(await storage.list({ start: "b", end: "c" })).keys()],
      deleted: [
        await storage.delete("a"),
        await storage.delete("a"),
        await storage.delete(["b/1", "x"]),
      ],
      left: [...(await storage.list()).keys()],
    };
  }
  listedBy(prefix: string) {
    const { kv } = this.ctx.storage;
    const last = "\u{10ffff}";
    for (const key of ["a", "a\0b", "a\0c", "aa", "ä", last, last + last]) kv.put(key, 1);
    return kv.list({ prefix }).map(([key]) => key);
  }
  async syncKv() {
    const { kv } = this.ctx.storage;
    const before = [kv.get("a"), kv.delete("a"), kv.list()];
    kv.put("a", { n: 1 });
    kv.put("b/1", [1]);
    let refused = "";
    try {
      kv.put("f", () => 1);
    } catch (error) {
      refused = String(error);
    }
    const seen = [kv.get("a"), await this.ctx.storage.get("a"), [...kv.list({ prefix: "b/" })]];
    return { before, refused, seen, deleted: [kv.delete("a"), kv.get("a") === undefined] };
  }
  async synced() {
    this.sql`INSERT INTO things VALUES (1, 'x')`;
    await this.ctx.storage.sync();
    return (await journalOf(options(), "SqlAgent", this.name)).at(-1)!.turns.at(-1)!.sql;
  }
  identity() {
    const { id } = this.ctx;
    return {
      name: this.name,
      id: id.name,
      equal: id.equals(this.env.SqlAgent.idFromName(this.name)),
    };
  }
}

const systems = useSystems();
let system: Awaited<ReturnType<typeof systems.start>>;
const options = () => system.options;
beforeAll(async () => {
  system = await systems.start({ agents: { SqlAgent } });
});
const agent = (name: string) =>
  getAgentByName((system.gateway.env as unknown as Env).SqlAgent, name);

describe("sql", () => {
  test("binds strings, numbers, booleans and null, and returns rows as an array of objects", async () => {
    expect(await (await agent("types")).types()).toEqual({
      isArray: true,
      rows: [
        [1, "integer"],
        [1.5, "real"],
        ["text", "text"],
        ["", "text"],
        [1, "integer"],
        [0, "integer"],
        [null, "null"],
        [2 ** 40, "integer"],
      ],
    });
  });

  test("binds values and never splices them into the text", async () => {
    const text = "'); DROP TABLE things; --";
    expect(await (await agent("injected")).injected(text)).toEqual([{ value: text }]);
  });

  test("returns an empty array if there are no rows", async () => {
    expect(await (await agent("empty")).empty()).toEqual([[], []]);
  });

  test("called with a text is a TypeError that shows the template, since the text could hold values", async () => {
    await expect((await agent("called")).called("SELECT 1")).rejects.toThrow(
      /^sql is the tag of a template: this\.sql`SELECT/,
    );
  });

  test("that fails throws SqlError with query and message, and changes nothing", async () => {
    const { outcomes, left } = await (await agent("wrong")).wrong();
    expect(outcomes).toEqual([
      {
        name: "SqlError",
        query: "SELEC 1",
        message: expect.stringMatching(/^SQL query failed: .*syntax error/),
      },
      {
        name: "SqlError",
        query: "SELECT ? FROM nowhere",
        message: expect.stringContaining("no such table: nowhere"),
      },
      {
        name: "SqlError",
        query: "INSERT INTO things (id) VALUES (?), (?)",
        message: expect.stringContaining("UNIQUE"),
      },
      { name: "SqlError", query: "BEGIN", message: expect.stringMatching(/^SQL query failed: /) },
    ]);
    expect(left).toEqual([{ n: 0 }]);
  });
});

describe("ctx.storage", () => {
  test("returns a cursor from sql.exec: rows once, one, raw, counts, blobs", async () => {
    expect(await (await agent("cursor")).cursor()).toEqual({
      columns: ["id", "value"],
      first: { id: 1, value: "a" },
      rest: [{ id: 2, value: "b" }],
      one: { n: 2 },
      raw: [
        [1, "a"],
        [2, "b"],
      ],
      written: 2,
      blob: [1, 2],
      views: ["01000200", "0000", "6162"],
      several: "Expected exactly one result from SQL query, but got more",
      wrong: 'near "nothing": syntax error at offset 7: SQLITE_ERROR',
    });
  });

  test("undoes in transactionSync what threw, a nested one by itself", async () => {
    expect(await (await agent("transaction")).transaction()).toEqual({
      thrown: "rolled back",
      result: "result",
      rows: [{ id: 2 }],
    });
  });

  test("keeps JSON values by key", async () => {
    expect(await (await agent("kv")).kv()).toEqual({
      get: { n: 1 },
      absent: true,
      several: [
        ["a", { n: 1 }],
        ["b/2", null],
      ],
      list: [
        ["b/1", [1]],
        ["b/2", null],
      ],
      reversed: ["c%", "b/2"],
      range: ["b/1", "b/2"],
      deleted: [true, false, 1],
      left: ["b/2", "c%"],
    });
  });

  test("keeps them synchronously, too, under the same keys", async () => {
    expect(await (await agent("sync-kv")).syncKv()).toEqual({
      before: [null, false, []],
      refused: 'DataCloneError: storage.put("f"): the value is a function, which can\'t be cloned',
      seen: [{ n: 1 }, { n: 1 }, [["b/1", [1]]]],
      deleted: [true, true],
    });
  });

  test("lists the keys of a prefix, whatever characters either has", async () => {
    const last = "\u{10ffff}";
    const listed: ReadonlyArray<readonly [prefix: string, keys: string[]]> = [
      ["a", ["a", "a\0b", "a\0c", "aa"]],
      ["a\0", ["a\0b", "a\0c"]],
      [last, [last, last + last]],
      ["", ["a", "a\0b", "a\0c", "aa", "ä", last, last + last]],
      ["b", []],
    ];
    const stub = await agent("prefixes");
    for (const [prefix, keys] of listed) expect(await stub.listedBy(prefix)).toEqual(keys);
  });

  test("resolves sync when what was written is in the journal", async () => {
    expect(await (await agent("synced")).synced()).toEqual(["INSERT INTO things VALUES (1, 'x')"]);
  });

  test("writes no event for a read", async () => {
    const stub = await agent("reader");
    await stub.empty();
    const before = await journalOf(options(), "SqlAgent", "reader");
    await stub.identity();
    expect(await journalOf(options(), "SqlAgent", "reader")).toHaveLength(before.length);
  });

  test("has the agent's own ctx.id", async () => {
    expect(await (await agent("me")).identity()).toEqual({ name: "me", id: "me", equal: true });
  });
});
