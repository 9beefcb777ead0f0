/** The progress of long commands: a bar on a terminal, lines elsewhere, on stderr. */
import { expect, test } from "vitest";
import { Progress } from "../../services/cli/terminal/Progress.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const MINUTE_MS = 60_000;

function shown(hasTerminal: boolean) {
  const lines: string[] = [];
  const bars: Array<string | undefined> = [];
  const time = new VirtualTime({ seed: 1 });
  const status = (text: string | undefined): void => void bars.push(text);
  const err = (line: string): void => void lines.push(line);
  const progress = new Progress({ err, ...(hasTerminal && { status }) }, time, "events saved");
  return { time, progress, lines, bars };
}

test("a command that finishes at once shows no progress", () => {
  const { progress, lines, bars } = shown(false);
  progress.tell(1, 2);
  progress.tell(2, 2);
  progress.end();
  expect([lines, bars]).toEqual([[], []]);
});

test("without a terminal, progress is logged occasionally, with the time left", async () => {
  const { time, progress, lines } = shown(false);
  for (let done = 1; done <= 120; done++) {
    await time.advance(1_000);
    progress.tell(done, 240);
  }
  expect(lines).toEqual([
    "events saved: 12 %  30 of 240  4 min left",
    "events saved: 25 %  60 of 240  3 min left",
    "events saved: 37 %  90 of 240  3 min left",
    "events saved: 50 %  120 of 240  2 min left",
  ]);
});

test("at a terminal one bar is redrawn, and removed at the end", async () => {
  const { time, progress, lines, bars } = shown(true);
  for (const done of [10, 20, 30]) {
    await time.advance(1_000);
    progress.tell(done, 40);
    progress.tell(done, 40);
  }
  progress.end();
  expect(lines).toEqual([]);
  expect(bars).toEqual([
    "events saved [######------------------] 25 %  10 of 40  3 s left",
    "events saved [############------------] 50 %  20 of 40  2 s left",
    "events saved [##################------] 75 %  30 of 40  1 s left",
    undefined,
  ]);
});

test("work done by an earlier run does not count towards the time left", async () => {
  const { time, progress, lines } = shown(false);
  progress.from(100);
  await time.advance(MINUTE_MS);
  progress.tell(110, 120);
  expect(lines).toEqual(["events saved: 91 %  110 of 120  1 min left"]);
});
