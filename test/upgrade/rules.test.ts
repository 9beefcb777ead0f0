/** The rules of `npm run upgrade`: each holds after a right run, and finds what is planted. */
import { describe, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import type { History } from "../kit/checkers.ts";
import {
  checkChunks,
  checkCron,
  checkCrossed,
  checkDeed,
  checkHandedOn,
  checkJobs,
  checkLetters,
  checkNotes,
  checkOnce,
  checkPetition,
  type DoneDeed,
} from "./rules.ts";
import type { DeedRow, Ran } from "./storedModule.ts";

const ran = (what: Ran["what"], id: string, armed = "older", by = "newer"): Ran => ({ what, id, armed, ran: by }); // prettier-ignore

describe("stored work has run", () => {
  const stored = ["job 1", "job 2"];
  test.each([
    [[ran("job", "1"), ran("job", "2")], []],
    [[ran("job", "1")], ["k: job 2 ran 0 times"]],
    [[ran("job", "1"), ran("job", "2"), ran("job", "2")], ["k: job 2 ran 2 times"]],
    [[ran("job", "1"), ran("job", "2"), ran("job", "3")], ["k: job 3 ran 1 times"]],
  ])("once each: %#", (rows, wrong) => {
    expect(checkOnce("k", stored, rows)).toEqual(wrong);
  });

  test("in the order of the queue", () => {
    const jobs = (ids: string[]) => checkJobs("k", 2, ids.map((id) => ran("job", id))); // prettier-ignore
    expect(jobs(["there 1", "there 2", "back 1", "back 2"])).toEqual([]);
    expect(jobs(["there 2", "there 1"])).toEqual([expect.stringContaining("in the order 2, 1")]);
  });

  test("on the other release, in both directions", () => {
    const both = (["schedule", "job", "workflow"] as const).flatMap((what) => [
      ran(what, "1"),
      ran(what, "2", "newer", "older"),
    ]);
    expect(checkCrossed(both)).toEqual([]);
    const oneWay = both.filter(({ what, armed }) => what !== "job" || armed === "older");
    expect(checkCrossed(oneWay)).toEqual(["no job of one release ran on the other"]);
  });

  test("at each instant of a cron", () => {
    const history = (dues: number[]): History => ({
      id: agentId("Keeper", "k"),
      events: dues.map((due, seq) => ({
        seq,
        head: { turns: [{ done: [`schedule:tock:${due}`] }] } as never,
      })),
    });
    const marks = (...dues: number[]) => dues.map((due) => ran("cron", `tock:${due}`));
    const check = (dues: number[], ...marked: number[]) =>
      checkCron(history(dues), marks(...marked));
    expect(check([0, 2_000, 4_000], 0, 2_000, 4_000)).toEqual([]);
    expect(check([0, 4_000], 0, 4_000)).toEqual([expect.stringContaining("left out")]);
    expect(check([0, 2_000, 2_000], 0, 2_000)).toEqual([expect.stringContaining("repeated")]);
    expect(check([0, 2_000], 0)).toEqual([expect.stringContaining("instant 2 of 2")]);
    expect(check([0, 2_000], 0, 2_000, 2_000)).toEqual([expect.stringContaining("left 2 marks")]);
    expect(check([0, 2_000], 0, 2_000, 4_000)).toEqual([expect.stringContaining("is not done")]);
    expect(checkCron(history([]), [])).toEqual(["no cron of k ran"]);
  });
});

test("a reader receives each chunk once and in order, from both releases", () => {
  const chunks = (numbers: number[], split = 2) =>
    checkChunks("s", 3, numbers.map((n, at) => ({ n, written: at < split ? "older" : "newer" }))); // prettier-ignore
  expect(chunks([1, 2, 3])).toEqual([]);
  for (const numbers of [
    [1, 2],
    [1, 2, 2, 3],
    [1, 3, 2],
    [1, 2, 4],
  ])
    expect(chunks(numbers, 1)).toEqual([expect.stringContaining("the reader of s has")]);
  expect(chunks([1, 2, 3], 3)).toEqual(["s was written by one release only"]);
});

test("a diary is read whole, each note once", () => {
  const notes = (numbers: number[]) =>
    checkNotes("newer", 3, numbers.map((n) => JSON.stringify({ state: { notes: n } })).join("\n"));
  expect(notes([0, 1, 2, 3])).toEqual([]);
  for (const numbers of [
    [2, 3],
    [1, 3],
    [1, 2, 2, 3],
    [1, 2],
  ])
    expect(notes(numbers)).toEqual([`newer reads of 3 notes: ${numbers.join(" ")}`]);
});

describe("a turn of steps", () => {
  const row = (run: string, what: string, results = "", by = "older"): DeedRow => ({ run, what, results, by }); // prettier-ignore
  const call = (step: string, token: string, key = `key-${step}`) => ({ agent: "d", step, key, body: "", token }); // prettier-ignore
  const rows = [row("r", "begin"), row("r", "end", "older t2,fetched t3")];
  const deed: DoneDeed = {
    id: "d",
    steps: 2,
    rows,
    // The first was asked for again: its host died before the result was stored.
    calls: [call("1", "t1"), call("1", "t2"), call("2", "t3")],
    told: ["r"],
  };
  test.each<[string, Partial<DoneDeed>, RegExp | undefined]>([
    ["holds", {}, undefined],
    ["twice", { rows: [rows[0]!, ...rows] }, /its rows are/],
    ["of two runs", { rows: [row("other", "begin"), rows[1]!] }, /its rows are/],
    ["asked for after it was stored", { calls: [...deed.calls, call("2", "t4")] }, /step 2 gave t3, and the world last answered t4/],
    ["under two keys", { calls: [call("1", "t1", "k"), ...deed.calls.slice(1)] }, /under the keys "k", "key-1"/],
    ["without a key", { calls: [call("1", "t2", ""), call("2", "t3")] }, /under the keys ""/],
    ["told of another run", { told: ["r", "s"] }, /told r and s/],
  ])("%s", (_what, planted, wrong) => {
    const found = checkDeed({ ...deed, ...planted });
    if (wrong === undefined) expect(found).toEqual([]);
    else expect(found).toEqual([expect.stringMatching(wrong)]);
  }); // prettier-ignore

  test("continues with the other release's results, in both directions", () => {
    const there = row("r", "end", "older 1,fetched 2,newer 3,fetched 4");
    const back = row("s", "end", "newer 1,fetched 2,older 3,fetched 4");
    expect(checkHandedOn([there, back])).toEqual([]);
    expect(checkHandedOn([there, row("s", "end", "newer 1,fetched 2")])).toEqual(["steps of one turn crossed the releases 1 of 2 ways"]); // prettier-ignore
  });

  test("is decided by one of two people, and the requester acts once, on the other release", () => {
    const asked = row("asked", "go");
    const answered = row("answered", "ann", "", "newer");
    const votes = [row("voter", "ann taken"), row("voter", "bob closed")];
    expect(checkPetition("p", [asked, ...votes, answered])).toEqual([]);
    for (const planted of [
      [asked, ...votes, answered, answered],
      [asked, ...votes],
      [asked, row("voter", "ann taken"), row("voter", "bob taken"), answered],
      [asked, votes[0]!, answered],
      [asked, ...votes, row("answered", "bob", "", "newer")],
      [asked, ...votes, row("answered", "ann", "", "older")],
    ])
      expect(checkPetition("p", planted)).not.toEqual([]);
  });
});

describe("a redriven letter", () => {
  const sent = [
    { subject: "a", taken: true },
    { subject: "b", taken: false },
  ];
  const answer = (subject: string, messageId = subject) => ({ subject, messageId });
  test.each([
    ["is done and answered", ["a"], [answer("a")], 0],
    ["may be answered again under its Message-ID", ["a"], [answer("a"), answer("a")], 0],
    ["whose sender was told nothing may be done", ["a", "b"], [answer("a"), answer("b")], 0],
    ["is lost", [], [], 1],
    ["is done twice", ["a", "a"], [answer("a"), answer("a", "2")], 1],
    ["is not answered", ["a"], [], 1],
    ["is answered twice", ["a"], [answer("a"), answer("a", "2")], 1],
  ])("%s", (_what, done, answers, wrong) => {
    expect(checkLetters(sent, done, answers)).toHaveLength(wrong);
  });
});
