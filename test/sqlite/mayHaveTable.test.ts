import { expect, it } from "vitest";
import { tableExists } from "../../core/database/tableExists.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { db, openForEach } from "./eachDatabase.ts";
import { commit, openLayer, REPO, seq } from "./kit.ts";

const NAME = "svc_agents_queue";
openForEach();

it("is false for an empty database, and for one that has other tables only", () => {
  expect(db.mayHaveTable(NAME)).toBe(false);
  db.query("CREATE TABLE t (a); CREATE INDEX t_a ON t (a)", []);
  expect(db.mayHaveTable(NAME)).toBe(false);
  commit(db);
  expect(db.mayHaveTable(NAME)).toBe(false);
  expect(db.mayHaveTable("t")).toBe(true);
});

it("is true from the statement that makes the table on", () => {
  db.query("CREATE TABLE t (a)", []);
  db.query(`CREATE TABLE ${NAME} (a)`, []);
  expect(db.mayHaveTable("svc_agents_")).toBe(true);
  commit(db);
  expect(db.mayHaveTable(NAME)).toBe(true);
});

it("is true for a table that exists, however many others there are and however long its SQL is", () => {
  for (let others = 0; others < 60; others++) {
    const long = `/* ${"x".repeat((others % 7) * 1_000)} */`;
    db.query(`CREATE TABLE other_${others} (a ${long}); CREATE TABLE ${NAME} (b ${long})`, []);
    expect(tableExists(db, NAME)).toBe(true);
    expect(db.mayHaveTable(NAME)).toBe(true);
    if (others % 3 === 0) commit(db);
    db.query(`DROP TABLE ${NAME}`, []);
  }
});

it("reads the local file after a wake, and what another agent or a spill wrote since", async () => {
  const folder = tempFolder("may-have");
  const layer = await openLayer(folder.path, 0);
  try {
    const one = layer.databases.open(REPO).database;
    one.query("CREATE TABLE t (a)", []);
    commit(one);
    one.close({ seq: seq(1), core: new Uint8Array(0) });
    const again = layer.databases.open(REPO).database;
    expect(again.mayHaveTable(NAME)).toBe(false);
    again.query(`CREATE TABLE ${NAME} (a)`, []);
    commit(again); // spilled: nothing may stay in memory
    expect(again.mayHaveTable(NAME)).toBe(true);
    again.close({ seq: seq(2), core: new Uint8Array(0) });
    const third = layer.databases.open(REPO).database;
    expect(third.mayHaveTable(NAME)).toBe(true);
    third.close();
  } finally {
    layer.close();
    folder.remove();
  }
});
