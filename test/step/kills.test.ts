/** Turns with steps while their hosts are killed at each point once; `npm run step-kills`: more. */
import { expect, test } from "vitest";
import { killSteps } from "./KillRig.ts";
import { POINTS, UNDO_POINTS } from "./killModule.ts";

/** Those of questions too would be longer than the long tests have time for. */
const IN_TURNS = [...POINTS, ...UNDO_POINTS];

test("a host that is killed anywhere in a turn with steps leaves the effects of one run, and each step under one key", async () => {
  const { kills, wrong } = await killSteps(1, IN_TURNS, (line) => console.log(line));
  expect(wrong).toEqual([]);
  expect(kills).toBe(IN_TURNS.length);
}, 600_000);
