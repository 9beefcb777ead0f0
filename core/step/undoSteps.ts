/**
 * Undoes the steps of work that failed for good: the `undo` functions of those that are done run in
 * reverse order, before the failure is recorded as the end. `AgentSteps` does it for turns and for
 * fibers, `core/workflow/Execution` for workflows; each journals an undo as it does a step.
 *
 * 1. Each undo is a step of its own, `undo 1:charge`: journaled, retried by its step's policy, with
 *    its own idempotency key, and not run again once it has ended.
 * 2. Before the first undo, the start of the undoing is journaled with the failure (`UNDOING`). If
 *    the host ends meanwhile, the code runs again to find its undos: done steps return their
 *    results, no other step runs, and the work has failed however its code ends. A turn whose host
 *    dies in this again and again is given up (`lastAttempt`), and so is an undo of a workflow.
 * 3. An undo whose attempts are spent has failed, and the next one runs. The recorded failure names
 *    the undos that succeeded and those that failed.
 * 4. The undoing waits for steps that still run when the work has failed, and undoes them, too.
 */
import { AgentDiscarded } from "../errors/errors.ts";
import { failureText } from "../errors/failureText.ts";
import type { StepUndo } from "../turn/TurnSteps.ts";

/** The key of the undo of the step with this key. */
export const undoKey = (step: string): string => `undo ${step}`;

/**
 * Runs the undos, which are in the order of their steps (rule 3). `lost`: keys of done steps that
 * the last run did not ask for. Resolves to the failure with what became of each. Rejects with
 * `AgentDiscarded`.
 */
export async function undoSteps(
  failure: string,
  undos: ReadonlyArray<StepUndo>,
  lost: ReadonlyArray<string>,
): Promise<string> {
  const undone: string[] = [];
  const failed: string[] = [];
  for (const { name, run } of undos.toReversed())
    try {
      await run();
      undone.push(name);
    } catch (error) {
      if (error instanceof AgentDiscarded) throw error;
      failed.push(`the undo of ${name} failed: ${failureText(error)}`);
    }
  const told = [
    ...(undone.length === 0 ? [] : [`undone: ${undone.join(", ")}`]),
    ...failed,
    ...(lost.length === 0 ? [] : [`done, but not reached by its last run: ${lost.join(", ")}`]),
  ];
  return told.length === 0 ? failure : `${failure} (${told.join("; ")})`;
}

/** The failure of work that is not run again: nothing knows how its done steps are undone. */
export const notUndone = (failure: string, done: ReadonlyArray<string>): string =>
  done.length === 0 ? failure : `${failure} (done, and not undone: ${done.join(", ")})`;
