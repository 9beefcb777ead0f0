/** How many bytes of an answer a call takes, by the calls that are under way. */
import { expect, test } from "vitest";
import { AnswerBudget, isQuiet } from "../../core/call/AnswerBudget.ts";
import type { Call } from "../../schemas/bus/Call.ts";

const FETCH: Call = { kind: "fetch", id: "1", method: "GET", url: "http://h/", headers: [] };
const PULL: Call = { kind: "pull", stream: "s" };
const KIB = 1024;

/** Begins calls that settle with the returned function. Resolves to what each of them takes. */
function begin(budget: AnswerBudget, call: Call, count: number, quiet = false) {
  const pieces: Array<number | undefined> = [];
  const settle: Array<() => void> = [];
  for (let n = 0; n < count; n++)
    void budget.share(call, quiet, ({ piece }) => {
      pieces.push(piece);
      return new Promise<void>((resolve) => settle.push(resolve));
    });
  return { pieces, settle: () => settle.forEach((done) => done()) };
}

test("calls say nothing while each may have the longest piece", () => {
  const { pieces } = begin(new AnswerBudget(), PULL, 64);
  expect(pieces).toEqual(Array(64).fill(undefined));
});

test("more calls share the bytes, of which each takes at least 16 KiB", () => {
  const { pieces } = begin(new AnswerBudget(), FETCH, 5_000);
  expect([pieces[127], pieces[255], pieces[1023], pieces[4999]]).toEqual([128 * KIB, 64 * KIB, 16 * KIB, 16 * KIB]); // prettier-ignore
});

test("requests and pulls are counted apart, and a call counts until it has settled", async () => {
  const budget = new AnswerBudget();
  const pulls = begin(budget, PULL, 1_000);
  expect(begin(budget, FETCH, 1).pieces).toEqual([undefined]);
  pulls.settle();
  await new Promise(setImmediate);
  expect(begin(budget, PULL, 1).pieces).toEqual([undefined]);
});

test("pulls of quiet streams take little, and leave the bytes to others", () => {
  const budget = new AnswerBudget();
  expect(begin(budget, PULL, 5_000, true).pieces.at(-1)).toBe(16 * KIB);
  expect(begin(budget, PULL, 1).pieces).toEqual([undefined]);
  expect([0, 1_000, 16 * KIB, 256 * KIB].map(isQuiet)).toEqual([true, true, false, false]);
});

test("a call that fails counts no more", async () => {
  const budget = new AnswerBudget();
  const fails = (): Promise<never> => Promise.reject(new Error("lost"));
  await Promise.allSettled(Array.from({ length: 500 }, () => budget.share(PULL, false, fails)));
  expect(begin(budget, PULL, 1).pieces).toEqual([undefined]);
});

test("other calls, and the end of a body, are passed as they are", async () => {
  const budget = new AnswerBudget();
  begin(budget, PULL, 1_000);
  const cancel: Call = { ...PULL, cancel: true };
  expect(await budget.share(cancel, false, async (call) => call)).toBe(cancel);
});
