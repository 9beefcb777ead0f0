/** What the lines of `agents export --follow` say was changed, where no statement says it. */
import { expect, test } from "vitest";
import type { JournalHead, TurnRecord } from "../../../schemas/JournalEvent.ts";
import { makeMemoryJournal } from "../../../services/memory/MemoryJournal.ts";
import { CliFixture } from "../fixture.ts";
import { followAll } from "./followAll.ts";

const EVERYTHING = ["state", "sql", "schedules", "queue"];
const SCHEDULED = { pages: 1, schedules: { put: [{ id: "one" }] } };
const INSERT = ["INSERT INTO t VALUES (?)"];

test.each<[string, ReadonlyArray<Partial<TurnRecord>>, Partial<JournalHead>, object]>([
  ["statements that wrote", [{ sql: INSERT }, {}], { pages: 1 }, [["sql"], []]],
  ["rows that were put back", [{ restored: { time: 1 } }], { pages: 1 }, [["sql"]]],
  ["rows of a turn that is undone", [{}, { undone: true }], { pages: 1 }, [[], ["sql"]]],
  ["a schedule, whose row no statement wrote", [{}], SCHEDULED, [["schedules"]]],
  ["no rows", [{ state: { set: 1 } }], {}, [["state"]]],
  ["an agent that destroys itself", [{}, {}], { kind: "destroyed" }, [[], EVERYTHING]],
  ["an agent that is erased", [], { kind: "destroyed" }, [EVERYTHING]],
])("%s", async (_, turns, head, expected) => {
  const cli = new CliFixture();
  const end = await cli.append("RepoAgent", "one", turns, { ...head, delta: "" });
  const journal = makeMemoryJournal(cli.broker.connect());
  const lines = await followAll({ journal }, end, Math.max(1, turns.length));
  expect(lines.map((line) => (JSON.parse(line) as { changed: object }).changed)).toEqual(expected);
});
