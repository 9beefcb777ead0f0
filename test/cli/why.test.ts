/** The turns that wrote a field or row, differences of two points, and filtered histories. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AgentDatabase } from "../../core/database/Databases.ts";
import { agentId } from "../../schemas/Address.ts";
import type { TurnRecord } from "../../schemas/JournalEvent.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import type { AgentDiff } from "../../services/cli/commands/diff.ts";
import type { FieldWrite } from "../../core/history/fieldHistory.ts";
import type { TurnLine } from "../../services/cli/commands/history.ts";
import { pollUntil } from "../kit/poll.ts";
import type { AgentsRun } from "../kit/runAgents.ts";
import { CliFixture } from "./fixture.ts";

let sqlite: Awaited<ReturnType<typeof openSqliteDatabases>>;
let cli: CliFixture;
/** Writes as the agent's code would. */
let live: AgentDatabase;
const seqs: number[] = [];
const AGENT = ["RepoAgent", "octo-demo"] as const;
const NATS = ["--nats", "nats://one:4222"];

const push = (n: number, more: object = {}) => ({
  kind: "webhook" as const,
  id: `hook:${n}`,
  delivery: `delivery-${n}`,
  provider: "github",
  route: "/webhooks/github",
  type: "push",
  time: n,
  method: "POST",
  body: `{"said":"hello ${n}"}`,
  ...more,
});

async function event(
  turns: ReadonlyArray<Partial<TurnRecord>>,
  ...statements: ReadonlyArray<string>
): Promise<void> {
  for (const statement of statements) live.query(statement, []);
  const frozen = live.freeze();
  if (frozen !== undefined) live.committed();
  seqs.push(await cli.append(...AGENT, turns, frozen && { delta: frozen.delta, pages: frozen.pages })); // prettier-ignore
}

const run = (...args: ReadonlyArray<string>): Promise<AgentsRun> => cli.run([...args, ...NATS]);
const lines = async <A>(...args: ReadonlyArray<string>): Promise<A[]> => {
  const { out } = await run(...args, "--json");
  return out === "" ? [] : out.split("\n").map((line) => JSON.parse(line) as A);
};
const why = (path: string, ...more: ReadonlyArray<string>): Promise<FieldWrite[]> =>
  lines<FieldWrite>("why", ...AGENT, path, ...more);

beforeAll(async () => {
  sqlite = await openSqliteDatabases({ folder: undefined });
  cli = new CliFixture({ ...sqlite.databases, open: () => sqlite.databases.open(agentId("Copy", String(opened++))) }); // prettier-ignore
  let opened = 0;
  live = sqlite.databases.open(agentId("Live", "one")).database;
  await event([], "CREATE TABLE events (id INTEGER PRIMARY KEY, title TEXT)", "CREATE TABLE members (name TEXT, team INTEGER, role TEXT, PRIMARY KEY (name, team))"); // prettier-ignore
  await event([{ cause: push(1), state: { set: { open: 1, "odd.name": { a: [1] } } }, sql: ["INSERT …"], done: ["hook:1"] }], "INSERT INTO events VALUES (42, 'first')"); // prettier-ignore
  await event([{ cause: push(2), error: "boom", begun: true }]);
  await event([{ cause: { kind: "rpc", id: "call" }, state: { set: { open: 1, "odd.name": { a: [1, 2] } } } }]); // prettier-ignore
  await event(
    [
      { cause: push(2, { attempt: 2 }), state: { set: { open: 2 } }, sql: ["UPDATE …"], done: ["hook:2"] }, // prettier-ignore
      { cause: push(3), state: { set: { open: 3 } }, done: ["hook:3"] },
    ],
    "UPDATE events SET title = 'second' WHERE id = 42",
    "INSERT INTO members VALUES ('ann', 7, 'boss')",
  );
  await event([{ cause: { kind: "schedule", id: "s" }, sql: ["DELETE …"] }], "DELETE FROM events");
});
afterAll(() => {
  live.close();
  sqlite.close();
});

describe("agents why", () => {
  it("lists the turns that wrote a field, newest first, each with its delivery and both values", async () => {
    expect(await why("state.open")).toEqual([
      { seq: seqs[4], time: "2026-03-01T09:04:00.000Z", causes: [without(push(3))], before: 2, after: 3 },
      { seq: seqs[4], time: "2026-03-01T09:04:00.000Z", causes: [without(push(2, { attempt: 2 }))], before: 1, after: 2 },
      { seq: seqs[1], time: "2026-03-01T09:01:00.000Z", causes: [without(push(1))], after: 1 },
    ]); // prettier-ignore
    expect(await why("open", "--limit", "1")).toMatchObject([{ before: 2, after: 3 }]);
    const people = await run("why", ...AGENT, "open", "--limit", "1");
    expect(people.out).toBe(
      `${seqs[4]}  2026-03-01T09:04:00.000Z  webhook github push  delivery delivery-3\n    2 -> 3`,
    );
  });

  it("attributes a part of the state removed with its parent to the turn that removed it", async () => {
    const writes = await why('state["odd.name"].a[1]');
    expect(writes.map(({ seq, before, after }) => [seq, before, after])).toEqual([
      [seqs[4], 2, undefined],
      [seqs[3], undefined, 2],
    ]);
  });

  it("follows a row by its primary key, from insert through updates to delete", async () => {
    const writes = await why("events[42].title");
    expect(writes.map(({ seq, causes, before, after }) => [seq, causes.map(({ kind, id }) => `${kind} ${id}`), before, after])).toEqual([
      [seqs[5], ["schedule s"], "second", undefined],
      [seqs[4], ["webhook hook:2"], "first", "second"],
      [seqs[1], ["webhook hook:1"], undefined, "first"],
    ]); // prettier-ignore
    expect(await why('members["ann",7].role')).toMatchObject([{ after: "boss" }]);
    expect(await why("table:members[ann,7]")).toEqual([]);
    expect(await why('table:members["ann",7]')).toMatchObject([
      { after: { name: "ann", team: 7, role: "boss" } },
    ]);
  });

  it("reports an invalid path, and a value that never existed", async () => {
    expect(await run("why", ...AGENT, "a..b")).toMatchObject({ code: 2, err: expect.stringContaining("Use a path, as in") as string }); // prettier-ignore
    expect(await run("why", ...AGENT, "table:events")).toMatchObject({ code: 2, err: expect.stringContaining("key in brackets") as string }); // prettier-ignore
    expect(await run("why", ...AGENT, "members[ann]")).toMatchObject({ code: 2, err: expect.stringContaining("name and team") as string }); // prettier-ignore
    expect(await run("why", ...AGENT, "never")).toEqual({ code: 0, out: "", err: "No turn wrote never: it has never existed." }); // prettier-ignore
    expect(await run("why", "RepoAgnet", "octo-demo", "open")).toMatchObject({ code: 3, err: expect.stringContaining("Did you mean RepoAgent?") as string }); // prettier-ignore
  });
});

describe("agents history", () => {
  it("says of a failed attempt that another one follows, not that the turn continued", async () => {
    const { out } = await run("history", ...AGENT);
    expect(out).toContain(
      "    error     boom\n    not finished: this attempt failed, and another one follows",
    );
    expect(out).not.toContain("the turn continued");
  });

  it("shows the steps that each event stores, those that run again, and what was undone", async () => {
    const agent = ["OrderAgent", "acme"] as const;
    const cause = push(1);
    const done = { key: "1:charge", result: { id: "ch_1" } };
    const again = [{ key: "1:ship", error: "Error: no carrier" }, { key: "1:GET stock.example" }];
    await cli.append(...agent, [{ cause, steps: [done, { key: "1:mail" }], begun: true }]);
    await cli.append(...agent, [{ cause, again, error: "Error: no carrier", begun: true }]);
    await cli.append(...agent, [{ cause, undone: true, begun: true }]);
    const { out } = await run("history", ...agent);
    expect(out).toContain(
      `    step      1:charge → {"id":"ch_1"}\n    step      1:mail → undefined\n`,
    );
    expect(out).toContain(
      "    again     1:ship: Error: no carrier\n    again     1:GET stock.example: its answer was no success\n",
    );
    expect(out).toContain("    undone: what was stored of this turn before its host ended\n");
  });
});

describe("agents diff", () => {
  it("shows which fields and rows differ between two points, by sequence or time", async () => {
    const [found] = await lines<AgentDiff>("diff", ...AGENT, "--from", `${seqs[1]}`, "--to", `${seqs[4]}`); // prettier-ignore
    expect(found).toMatchObject({ from: { seq: seqs[1] }, to: { seq: seqs[4] } });
    expect(found!.state).toEqual([
      { path: "state.open", before: 1, after: 3 },
      { path: 'state["odd.name"]', before: { a: [1] } },
    ]);
    expect(found!.rows).toEqual([
      { path: "events[42].title", before: "first", after: "second" },
      { path: 'members["ann",7]', after: { name: "ann", team: 7, role: "boss" } },
    ]);
    const byTime = await lines<AgentDiff>("diff", ...AGENT, "--from", "2026-03-01T09:01:30Z", "--to", "2026-03-01T09:04:00Z"); // prettier-ignore
    expect(byTime).toEqual([found]);
    const people = await run("diff", ...AGENT, "--from", `${seqs[3]}`, "--to", `${seqs[4]}`);
    expect(people.out.split("\n")).toContain('events[42].title: "first" -> "second"');
  });

  it("prints paths that can be passed to why", async () => {
    const [found] = await lines<AgentDiff>("diff", ...AGENT, "--from", `${seqs[1]}`, "--to", `${seqs[4]}`); // prettier-ignore
    for (const { path, after } of [...found!.state, ...found!.rows]) {
      const writes = await why(path);
      const then = writes.find(({ seq }) => seq <= seqs[4]!);
      expect([path, then?.after]).toEqual([path, after]);
    }
  });

  it("reports that nothing differs, and which point is invalid", async () => {
    const same = await run("diff", ...AGENT, "--from", `${seqs[2]}`, "--to", `${seqs[2]}`);
    expect(same).toMatchObject({ code: 0, out: "", err: expect.stringContaining("no difference") as string }); // prettier-ignore
    expect(await run("diff", ...AGENT)).toMatchObject({ code: 2, err: expect.stringContaining("--from") as string }); // prettier-ignore
    expect(await run("diff", ...AGENT, "--from", "yesterday")).toMatchObject({ code: 2, err: expect.stringContaining("argument 'yesterday' is invalid") as string }); // prettier-ignore
    const whole = await run("diff", ...AGENT, "--from", "2001-01-01T00:00Z", "--to", `${seqs[1]}`);
    expect(whole.out).toContain('state: unset -> {"open":1');
    expect(whole.err).toContain("from before its first event");
  });
});

describe("agents history with filters", () => {
  const shown = async (...args: ReadonlyArray<string>) =>
    (await lines<TurnLine>("history", ...AGENT, ...args)).map(({ seq, cause }) => [seq, cause.id]);

  it("selects turns by kind, route, delivery, failure, time and text", async () => {
    expect(await shown("--kind", "schedule")).toEqual([[seqs[5], "s"]]);
    expect(await shown("--route", "/webhooks/github", "--from", `${seqs[4]}`)).toEqual([
      [seqs[4], "hook:2"],
      [seqs[4], "hook:3"],
    ]);
    expect(await shown("--delivery", "delivery-2")).toEqual([
      [seqs[2], "hook:2"],
      [seqs[4], "hook:2"],
    ]);
    expect(await shown("--failed")).toEqual([[seqs[2], "hook:2"]]);
    expect(await shown("--since", "2026-03-01T09:03:00Z", "--until", "2026-03-01T09:03:59Z")).toEqual([[seqs[3], "call"]]); // prettier-ignore
    expect(await shown("--grep", '"SAID":"hello 3"')).toEqual([[seqs[4], "hook:3"]]);
    expect(await shown("--kind", "webhook", "--limit", "1")).toEqual([[seqs[4], "hook:3"]]);
    expect(await run("history", ...AGENT, "--kind", "web")).toMatchObject({ code: 2 });
    expect(await run("history", ...AGENT, "--until", "1h", "--follow")).toMatchObject({ code: 2 });
  });

  it("shows with --limit the end of the whole history, also where states are stored as changes", async () => {
    for (let n = 0; n < 40; n++) {
      // Appends a letter to the text.
      const state = n === 0 ? { set: { text: "" } } : { splice: [8 + n, 2, "x"] as const };
      await cli.append("RepoAgent", "long", [{ cause: { kind: "rpc", id: `${n}` }, state }]); // prettier-ignore
    }
    const all = await lines<TurnLine>("history", "RepoAgent", "long");
    expect(all).toHaveLength(40);
    for (const limit of [1, 2, 5, 39, 40, 41])
      expect(await lines("history", "RepoAgent", "long", "--limit", `${limit}`)).toEqual(all.slice(-limit)); // prettier-ignore
    for (const { seq } of all)
      expect(await lines("history", "RepoAgent", "long", "--from", `${seq}`)).toEqual(all.filter((line) => line.seq >= seq)); // prettier-ignore
    const out: string[] = [];
    const next = `${all.at(-1)!.seq + 1}`;
    let isFollowing = false;
    const following = cli.run(["history", "RepoAgent", "long", "--json", "--from", next, "--follow", ...NATS], { out: (line) => out.push(line), err: () => (isFollowing = true) }); // prettier-ignore
    await pollUntil("following", () => isFollowing || { done: false, saw: out });
    await cli.append("RepoAgent", "long", [{ cause: { kind: "rpc", id: "new" }, state: { splice: [48, 2, "y"] } }]); // prettier-ignore
    await pollUntil("the new turn", () => out.length === 1 || { done: false, saw: out });
    expect(JSON.parse(out[0]!)).toMatchObject({ state: { text: `${"x".repeat(39)}y` } });
    process.emit("SIGTERM");
    expect(await following).toMatchObject({ code: 0 });
  });

  it("shows with --rows the values that SQL wrote, with the last turn of their event", async () => {
    const found = await lines<TurnLine>("history", ...AGENT, "--rows", "--kind", "webhook");
    expect(found.map(({ rows }) => rows)).toEqual([
      [{ path: "events[42]", after: { id: 42, title: "first" } }],
      undefined,
      undefined,
      [
        { path: "events[42].title", before: "first", after: "second" },
        { path: 'members["ann",7]', after: { name: "ann", team: 7, role: "boss" } },
      ],
    ]);
    const people = await run("history", ...AGENT, "--rows", "--limit", "3");
    expect(people.out).toContain('    row       events[42].title: "first" -> "second"');
  });

  it("continues with --follow as turns are stored, each turn once, until a signal", async () => {
    const out: string[] = [];
    const ended = cli.run(["history", ...AGENT, "--json", "--kind", "rpc", "--follow", "--rows", ...NATS], { out: (line) => out.push(line) }); // prettier-ignore
    const before = await shown("--kind", "rpc");
    const ids = () => out.map((line) => (JSON.parse(line) as TurnLine).cause.id);
    await pollUntil("the past", () => out.length === before.length || { done: false, saw: out });
    await event([{ cause: { kind: "rpc", id: "new" }, sql: ["INSERT …"] }], "INSERT INTO events VALUES (7, 'third')"); // prettier-ignore
    await event([{ cause: { kind: "queue", id: "not asked for" } }]);
    await event([{ cause: { kind: "rpc", id: "newer" } }]);
    await pollUntil("what came", () => ids().includes("newer") || { done: false, saw: out });
    expect(ids()).toEqual([...before.map(([, id]) => id), "new", "newer"]);
    expect(JSON.parse(out.at(-2)!)).toMatchObject({ rows: [{ path: "events[7]" }] });
    process.emit("SIGTERM");
    expect(await ended).toMatchObject({ code: 0 });
  });
});

describe("agents why, when a field and a table share a name", () => {
  it("refuses an ambiguous path, and each of the two can be named", async () => {
    await event([{ cause: { kind: "rpc", id: "both" }, state: { set: { open: 3, events: { 42: "field" } } } }]); // prettier-ignore
    expect(await run("why", ...AGENT, "events[42]")).toMatchObject({ code: 2, err: expect.stringContaining("state.events[42] or table:events[42]") as string }); // prettier-ignore
    expect(await why("state.events[42]")).toMatchObject([{ after: "field" }]);
    expect(await why("table:events[42]")).toHaveLength(3);
  });
});

const without = (whole: ReturnType<typeof push>) => {
  const { body: _body, ...cause } = whole;
  return cause;
};
