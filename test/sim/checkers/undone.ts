/** Undos of fibers and workflows, by what the world was asked (`act`). */
import type { Violations } from "../../kit/checkers.ts";
import type { Observed } from "../rig/Observed.ts";

/** What a step that buys, and its undo, are called by. */
export const undoOf = (work: string): string => `undo ${work}`;

/**
 * Each part is undone, the last one first. A host that knew that an undo had ended does not run it
 * again; it knew if it had read as much of the journal as was there when a later undo began.
 */
export function wrongUndos({ asked }: Observed, work: string, parts: number): Violations {
  const wrong: string[] = [];
  const calls = asked.map(({ step, seq }, at) => ({ step, seq, at }));
  const undosOf = (part: number) => calls.filter(({ step }) => step === `${undoOf(work)} ${part}`);
  for (let part = parts; part >= 1; part--) {
    const [first] = undosOf(part);
    if (first === undefined) wrong.push(`part ${part} of ${work} was not undone`);
    const before = undosOf(part + 1);
    if (first !== undefined && before.length > 0 && before[0]!.at > first.at)
      wrong.push(`part ${part} of ${work} was undone before part ${part + 1}`);
    for (const own of undosOf(part))
      if (before.some(({ at, seq }) => at > own.at && seq >= own.seq))
        wrong.push(`part ${part + 1} of ${work} was undone again after part ${part} had begun`);
  }
  return wrong;
}

export const wasUndone = ({ asked }: Observed, work: string): boolean =>
  asked.some(({ step }) => step.startsWith(`${undoOf(work)} `));
