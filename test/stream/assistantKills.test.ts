/** The assistant with its hosts killed once at each point; `npm run assistant` repeats it. */
import { expect, test } from "vitest";
import { POINTS } from "../../examples/assistant/model.ts";
import { killAtEachPoint } from "./AssistantRig.ts";

test("a host that is killed at any point loses or repeats no answer, tool run or reader's chunk", async () => {
  const { kills, wrong } = await killAtEachPoint(1, (line) => console.log(line));
  expect(wrong).toEqual([]);
  expect(kills).toBe(POINTS.length);
}, 600_000);
