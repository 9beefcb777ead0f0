/** The console's API: what a page or a script reads and does with the token. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { DESK, NoteConsole, type Turn } from "./NoteConsole.ts";

let notes: NoteConsole;
beforeAll(async () => {
  notes = await NoteConsole.start();
  await notes.write();
});
afterAll(() => notes?.stop());

it("lists agents by class and name prefix, and the hosts with their shards", async () => {
  const names = async (query: string) =>
    (await notes.get<{ name: string }[]>(`/api/agents?${query}`))
      .map(({ name }) => name)
      .toSorted();
  expect(await names("")).toEqual(["in a drawer", "on/the desk"]);
  expect(await names("class=NoteAgent&prefix=on")).toEqual(["on/the desk"]);
  expect(await names("class=other")).toEqual([]);
  expect(await names("limit=1")).toHaveLength(1);
  expect(await notes.get("/api/hosts")).toEqual([{ host: expect.any(String), shards: 4 }]);
});

it("shows an agent's turns, and its state, rows and schedules at each", async () => {
  const turns = await notes.get<Turn[]>(`${DESK}/history`);
  const second = turns.find((turn) => turn.state?.text === "second")!;
  expect(await notes.get(`${DESK}/state?at=${second.seq}`)).toMatchObject({
    class: "NoteAgent",
    seq: second.seq,
    state: { text: "second", by: { name: "ann" } },
  });
  expect(await notes.get(`${DESK}/state`)).toMatchObject({ state: { text: "third" } });
  const query = encodeURIComponent("SELECT text FROM notes ORDER BY rowid");
  expect(await notes.get(`${DESK}/sql?at=${second.seq}&query=${query}`)).toEqual([
    { text: "first" },
    { text: "second" },
  ]);
  expect(await notes.get(`${DESK}/schedules?at=${second.seq}`)).toEqual([]);
  expect(await notes.get(`${DESK}/schedules`)).toMatchObject([{ callback: "remind" }]);
});

it("shows turns from a sequence on as in the whole list, even if states are stored as diffs", async () => {
  const long = "x".repeat(5_000);
  for (const end of ["a", "b", "c"]) await notes.call("a long text", "write", long + end, "ann");
  const of = "/api/agents/NoteAgent/a%20long%20text/history";
  const all = await notes.get<Turn[]>(of);
  for (const { seq } of all)
    expect(await notes.get(`${of}?from=${seq}`)).toEqual(all.filter((turn) => turn.seq >= seq));
  const { seq } = all.at(-1)!;
  expect(await notes.get(`${of}?from=${seq + 1}`)).toEqual([]);
});

it("leaves out of a list of turns what was not asked for", async () => {
  type Whole = Turn & { readonly cause: Readonly<Record<string, unknown>> };
  const whole = await notes.get<Whole[]>(`${DESK}/history`);
  const brief = await notes.get<Whole[]>(`${DESK}/history?omit=state,input`);
  expect(brief).toHaveLength(whole.length);
  expect(whole.some(({ state }) => state !== undefined)).toBe(true);
  for (const [n, turn] of brief.entries()) {
    const { body: _body, headers: _headers, ...cause } = whole[n]!.cause;
    const state = whole[n]!.state === undefined ? {} : { state: true };
    expect(turn).toEqual({ ...whole[n], cause, ...state });
  }
  // A text is found in what is left out, too.
  const seqs = async (query: string) =>
    (await notes.get<Turn[]>(`${DESK}/history?${query}`)).map(({ seq }) => seq);
  const second = whole.find(({ state }) => state?.text === "second")!;
  expect(await seqs("text=SECOND&omit=state,input")).toContain(second.seq);
  expect(await seqs("text=SECOND&omit=state,input")).toEqual(await seqs("text=SECOND"));
});

it("reports what is wrong with a request", async () => {
  const wrong = async (path: string) => {
    const { status, text } = await notes.ask(path);
    return [status, (JSON.parse(text) as { error: string }).error] as const;
  };
  expect(await wrong("/api/agents/NoteAgent/nobody/state")).toEqual([
    404,
    expect.stringContaining("nobody"),
  ]);
  expect(await wrong(`${DESK}/state?at=yesterday`)).toEqual([
    400,
    expect.stringContaining("at=yesterday: Use a journal sequence"),
  ]);
  expect(await wrong(`${DESK}/sql?query=DELETE+FROM+notes`)).toEqual([
    400,
    expect.stringContaining("a query may only read"),
  ]);
  for (const limit of ["none", "0", "5001", "1e2", "0x10", "1.0"]) {
    const said = `limit=${limit}: use a whole number from 1 to 5000`;
    expect(await wrong(`${DESK}/history?limit=${limit}`)).toEqual([400, said]);
  }
  expect(await wrong(`${DESK}/history?omit=state,all`)).toEqual([
    400,
    "omit=state,all: use state,input, or one of them",
  ]);
  expect((await notes.ask(`${DESK}/nothing`)).status).toBe(404);
  expect((await notes.ask("/api/dead/1/drop")).status).toBe(405);
  expect((await notes.ask("/%E0%A4%A", {})).status).toBe(400);
  for (const id of ["0", "1e0", "9007199254740993"])
    expect((await notes.ask(`/api/dead/${id}`)).status, id).toBe(404);
  for (const path of ["//", "//other.example/api/overview"])
    expect(await notes.statusOf("GET", path, {}), path).toBe(404);
});

it("redrives and drops dead letters, but not for another site's page", async () => {
  await notes.call("in a drawer", "enqueue");
  const letters = await pollUntil("the dead letter", async () => {
    const found = await notes.get<{ id: number; name: string }[]>("/api/dead");
    return found.length === 1 ? { done: true, value: found } : { done: false, saw: found };
  });
  expect(letters[0]).toMatchObject({ name: "in a drawer" });
  const drop = `/api/dead/${letters[0]!.id}/drop`;
  const foreign = await notes.statusOf("POST", drop, { "sec-fetch-site": "cross-site" });
  expect(foreign).toBe(403);
  expect(await notes.get("/api/dead")).toHaveLength(1);
  await notes.call("in a drawer", "write", "now", "the boss");
  const redrive = await notes.ask(`/api/dead/${letters[0]!.id}/redrive`, { method: "POST" });
  expect(redrive.status).toBe(200);
  expect(await notes.get("/api/dead")).toEqual([]);
  expect((await notes.ask(drop, { method: "POST" })).status).toBe(404);
});
