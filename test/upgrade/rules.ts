/** The rules for work that one release stored and another ran: each returns its violations. */
import type { History, Violations } from "../kit/checkers.ts";
import type { Call } from "../step/World.ts";
import type { Chunk, DeedRow, Ran } from "./storedModule.ts";

/** From one instant of the keepers' cron to the next. */
const CRON_MS = 2_000;
const KINDS = ["schedule", "job", "workflow"] as const;

/** Each thing that was stored has run once, and nothing else has. */
export function checkOnce(
  name: string,
  stored: ReadonlyArray<string>,
  ran: ReadonlyArray<Ran>,
): Violations {
  const ids = ran.filter(({ what }) => what !== "cron").map(({ what, id }) => `${what} ${id}`);
  const times = new Map<string, number>(stored.map((id) => [id, 0]));
  for (const id of ids) times.set(id, (times.get(id) ?? 0) + 1);
  return [...times].flatMap(([id, count]) =>
    count === 1 && stored.includes(id) ? [] : [`${name}: ${id} ran ${count} times`],
  );
}

/** A queue is in order, and so are its rounds, of `jobs` each. */
export function checkJobs(name: string, jobs: number, ran: ReadonlyArray<Ran>): Violations {
  const numbers = ran
    .filter(({ what }) => what === "job")
    .map(({ id }) => Number(id.split(" ").at(-1)));
  const isOrdered = numbers.every((n, at) => n === (at % jobs) + 1);
  return isOrdered ? [] : [`${name}: its queue ran in the order ${numbers.join(", ")}`];
}

/** Keys of schedules are `schedule:<id>:<due>`, several for a cron. Its marks: `<id>:<due>`. */
export function checkCron({ id, events }: History, ran: ReadonlyArray<Ran>): Violations {
  const dues = new Map<string, number[]>();
  for (const key of events.flatMap(({ head }) => head.turns.flatMap(({ done }) => done ?? []))) {
    const [kind, of, due] = key.split(":");
    if (kind === "schedule") dues.set(of!, [...(dues.get(of!) ?? []), Number(due)]);
  }
  const crons = [...dues].filter(([, { length }]) => length > 1);
  const wrong = crons.length > 0 ? [] : [`no cron of ${id.name} ran`];
  const marks = ran.filter(({ what }) => what === "cron").map((one) => one.id);
  for (const [cron, instants] of crons) {
    const gap = instants.find((due, at) => at > 0 && due !== instants[at - 1]! + CRON_MS);
    if (gap !== undefined)
      wrong.push(`${id.name}: before ${new Date(gap).toISOString()} its cron left out or repeated an instant`); // prettier-ignore
    for (const [at, due] of instants.entries()) {
      const { length } = marks.filter((mark) => mark === `${cron}:${due}`);
      if (length !== 1)
        wrong.push(`${id.name}: instant ${at + 1} of ${instants.length} of its cron (${new Date(due).toISOString()}) left ${length} marks`); // prettier-ignore
    }
  }
  const extra = marks.filter((mark) => {
    const [cron, due] = mark.split(":");
    return !dues.get(cron!)?.includes(Number(due));
  });
  return [...wrong, ...extra.map((mark) => `${id.name}: ${mark} left a mark and is not done`)];
}

/** Some of each kind has run on the other release than the one that stored it, both ways. */
export function checkCrossed(ran: ReadonlyArray<Ran>): Violations {
  return KINDS.flatMap((kind) => {
    const ways = ran.filter(({ what, armed, ran: by }) => what === kind && armed !== by);
    const from = new Set(ways.map(({ armed }) => armed));
    return from.size === 2 ? [] : [`no ${kind} of ${from.size === 0 ? "either" : "one"} release ran on the other`]; // prettier-ignore
  });
}

/** A reader has each of `count` chunks once and in order, and both releases have written. */
export function checkChunks(id: string, count: number, chunks: ReadonlyArray<Chunk>): Violations {
  const wrong: string[] = [];
  const numbers = chunks.map(({ n }) => n);
  if (numbers.length !== count || numbers.some((n, at) => n !== at + 1))
    wrong.push(`the reader of ${id} has ${numbers.length} chunks of ${count}: ${numbers.join(" ")}`); // prettier-ignore
  if (new Set(chunks.map(({ written }) => written)).size < 2)
    wrong.push(`${id} was written by one release only`);
  return wrong;
}

/** `history`: lines of `agents history --json` of a diary that has `notes` notes, each one turn. */
export function checkNotes(release: string, notes: number, history: string): Violations {
  const told = history
    .trim()
    .split("\n")
    .flatMap((line) => (JSON.parse(line) as { state?: { notes: number } }).state?.notes ?? []);
  const past = told.filter((note) => note > 0);
  const isWhole = past.length === notes && past.every((note, at) => note === at + 1);
  return isWhole ? [] : [`${release} reads of ${notes} notes: ${past.join(" ")}`];
}

/** What is known of one deed: a turn of many steps. */
export interface DoneDeed {
  readonly id: string;
  readonly steps: number;
  /** Its agent's, oldest first. */
  readonly rows: ReadonlyArray<DeedRow>;
  /** What the world was asked for it. */
  readonly calls: ReadonlyArray<Call>;
  /** What its caller was told, each time that it asked: the run. Empty: it was no call. */
  readonly told: ReadonlyArray<string>;
}

/**
 * Its rows are those of one run, with the result of each step; each step was asked for under one
 * key, and not again once its result was stored; its caller was told that run.
 */
export function checkDeed({ id, steps, rows, calls, told }: DoneDeed): Violations {
  const wrong: string[] = [];
  const ended = rows.find(({ what }) => what === "end");
  if (rows.map(({ what }) => what).join() !== "begin,end" || rows[0]?.run !== ended?.run)
    wrong.push(`${id}: its rows are ${JSON.stringify(rows)}`);
  const tokens = resultsOf(ended).map(({ token }) => token);
  for (let n = 1; n <= steps; n++) {
    const asked = calls.filter(({ step }) => step === `${n}`);
    const keys = new Set(asked.map(({ key }) => key));
    if (keys.size !== 1 || keys.has(""))
      wrong.push(`${id}: step ${n} was asked for under the keys "${[...keys].join('", "')}"`);
    const last = asked.at(-1)?.token;
    if (tokens[n - 1] !== last)
      wrong.push(`${id}: step ${n} gave ${tokens[n - 1]}, and the world last answered ${last}`);
  }
  if (told.some((run) => run !== ended?.run))
    wrong.push(`${id}: its caller was told ${told.join(" and ")}, and its rows are of ${ended?.run}`); // prettier-ignore
  return wrong;
}

/** Some deed that one release began was ended by the other with its results, both ways. */
export function checkHandedOn(rows: ReadonlyArray<DeedRow>): Violations {
  const from = rows.flatMap((row) => {
    // What `this.fetch` returned does not say which release asked.
    const releases = resultsOf(row).flatMap(({ release }) =>
      release === "fetched" ? [] : release,
    );
    return releases.length > 0 && releases[0] !== releases.at(-1) ? [releases[0]] : [];
  });
  const ways = new Set(from).size;
  return ways === 2 ? [] : [`steps of one turn crossed the releases ${ways} of 2 ways`];
}

/** Results of steps are `<release> <token>`, separated by commas. */
const resultsOf = (row: DeedRow | undefined) =>
  (row?.results ?? "").split(",").flatMap((text) => {
    const [release, token] = text.split(" ");
    return release !== undefined && token !== undefined ? [{ release, token }] : [];
  });

/** Of two people one decided; and who asked acted once, on that, on the other release. */
export function checkPetition(id: string, rows: ReadonlyArray<DeedRow>): Violations {
  const of = (run: string): ReadonlyArray<DeedRow> => rows.filter((row) => row.run === run);
  const votes = of("voter").map(({ what }) => what);
  const taken = votes.filter((vote) => vote.endsWith(" taken"));
  const answered = of("answered");
  const wrong: string[] = [];
  if (votes.length !== 2 || taken.length !== 1) wrong.push(`${id}: its votes are ${votes.join()}`);
  if (answered.map(({ what }) => `${what} taken`).join() !== taken.join())
    wrong.push(`${id}: who asked was ${answered.map(({ what }) => what).join() || "not"} answered`);
  if (of("asked").length === 0 || of("asked")[0]?.by === answered[0]?.by)
    wrong.push(`${id}: it was asked and answered on ${answered[0]?.by}`);
  return wrong;
}

/** A letter as its sender knows it. */
export interface SentLetter {
  readonly subject: string;
  /** SMTP answered 250. */
  readonly taken: boolean;
}

/**
 * Each letter that was taken is done once and answered by one mail, which may have been sent again
 * under its Message-ID. `done`: subjects; `answers`: subject and Message-ID of each that arrived.
 */
export function checkLetters(
  sent: ReadonlyArray<SentLetter>,
  done: ReadonlyArray<string>,
  answers: ReadonlyArray<{ readonly subject: string; readonly messageId: string }>,
): Violations {
  const wrong: string[] = [];
  for (const { subject, taken } of sent) {
    const times = done.filter((one) => one === subject).length;
    const ids = new Set(
      answers.filter((answer) => answer.subject === subject).map(({ messageId }) => messageId),
    );
    if (times > 1 || (taken && times === 0)) wrong.push(`${subject} was done ${times} times`);
    if (ids.size !== times) wrong.push(`${subject} was done ${times} times and answered ${ids.size} times`); // prettier-ignore
  }
  return wrong;
}
