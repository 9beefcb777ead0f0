/** Which events stored a step, as `agents workflows` and the console show it. */
import { expect, test } from "vitest";
import type { TurnRecord } from "../../schemas/JournalEvent.ts";
import { StepTurns } from "../../core/workflow/RecordedRun.ts";

const step = (id: string): TurnRecord => ({ cause: { kind: "workflow", id } });

test("a step that a restore removed began when it ran again", () => {
  const turns = new StepTurns();
  turns.add(1, { time: 1_000, turns: [step("1:kept")] });
  turns.add(2, { time: 2_000, turns: [step("1:again")] });
  turns.add(3, { time: 3_000, turns: [step("1:gone")] });
  turns.add(4, { time: 4_000, turns: [{ cause: { kind: "background" }, restored: { time: 1_000 } }] }); // prettier-ignore
  turns.add(5, { time: 5_000, turns: [step("1:again")] });
  expect(turns.of("1:kept")).toMatchObject({ began: { seq: 1 }, last: { seq: 1 } });
  expect(turns.of("1:again")).toMatchObject({ began: { seq: 5 }, last: { seq: 5 } });
  expect(turns.of("1:gone")).toBeUndefined();
});
