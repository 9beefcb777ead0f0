/** Whose turn ended workers that nothing was reported of (`SilentEnds`). */
import { beforeEach, describe, expect, it } from "vitest";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { SilentEnds } from "../../services/workers/SilentEnds.ts";
import { TURNS_REPORTED_MS } from "../../services/watchdog/reports.ts";
import { HandWorker } from "./HandWorker.ts";

const CRASH = { code: null, signal: "SIGSEGV" } as const;
const turnOf = (name: string) => ({ class: "Repo", name, turn: "webhook", attempt: 1 });

let time: VirtualTime;
let ends: SilentEnds;
beforeEach(() => {
  time = new VirtualTime();
  ends = new SilentEnds(time);
});

/** A worker in which these agents' turns begin, in this order, and some of them end. */
function worker(began: ReadonlyArray<string>, over: ReadonlyArray<string> = []): HandWorker {
  const process = new HandWorker();
  ends.follow(process);
  began.forEach((name, n) => process.report({ entered: n, turn: turnOf(name) }));
  for (const name of over) process.report({ left: began.indexOf(name) });
  return process;
}

const named = (process: HandWorker): string | undefined => ends.ended(process, CRASH)?.turn?.name;

describe("a worker that ends without a reason", () => {
  it("names nobody if it is the first: the next one reports its turns", () => {
    expect(ends.any).toBe(false);
    expect(named(new HandWorker())).toBe(undefined);
    expect(ends.any).toBe(true);
  });

  it("again is the end of the turn that ran, and not certainly", () => {
    ends.ended(new HandWorker(), CRASH);
    expect(ends.ended(worker(["a", "bad", "b"], ["a", "b"]), CRASH)).toEqual({
      reason: "its process ended (SIGSEGV) while its turn ran, as one before had",
      turn: turnOf("bad"),
      exactly: false,
    });
  });

  it("is the end of the turn that ran last, if none runs", () => {
    ends.ended(new HandWorker(), CRASH);
    expect(named(worker(["bad", "a"], ["a", "bad"]))).toBe("bad");
  });

  it("is the end of the agent that ran at most of the ends", () => {
    ends.ended(new HandWorker(), CRASH);
    expect(named(worker(["bad", "a"]))).toBe("a");
    expect(named(worker(["b", "bad", "c"]))).toBe("bad");
  });

  it("names nobody if no turn ran", () => {
    ends.ended(new HandWorker(), CRASH);
    expect(named(worker([]))).toBe(undefined);
  });

  it("names nobody when the last such end is long ago", async () => {
    ends.ended(new HandWorker(), CRASH);
    const process = worker(["a"]);
    await time.advance(TURNS_REPORTED_MS);
    expect(ends.any).toBe(false);
    expect(named(process)).toBe(undefined);
  });
});
