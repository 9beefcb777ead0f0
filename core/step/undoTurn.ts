/**
 * Undoes the steps of a turn that failed for good: the `undo` functions of those that are done run
 * in reverse order, before the input is dead-lettered. `InputRuns` and `runJob` call it.
 *
 * 1. Each undo is a step of its own, `undo 1:charge`: journaled, retried by its step's policy, with
 *    its own idempotency key, and not run again once it has ended.
 * 2. Before the first undo, the start of the undoing is journaled with the failure (`UNDOING`). If
 *    the host ends meanwhile, the turn runs again from its start, to find its undos: done steps
 *    return their results, no other step runs, and the turn has failed however its code ends. A
 *    turn whose host dies in this again and again is given up (`lastAttempt`).
 * 3. An undo whose attempts are spent has failed, and the next one runs. The dead letter names the
 *    undos that succeeded and those that failed.
 * 4. The undoing waits for steps that still run when the turn has failed, and undoes them, too.
 */
import { UNDOING } from "../journal/AgentImage.ts";
import type { DoneStep } from "../journal/encodeCommit.ts";
import { failureText } from "../errors/failureText.ts";
import type { AgentTurns, Undone } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";
import { TurnSteps } from "../turn/TurnSteps.ts";
import { storeStep } from "./InputSteps.ts";

export type UndoingAgent = Pick<AgentTurns, "image" | "committer" | "unlessDiscarded">;

/** As `AgentTurns.undo`. */
export async function undoTurn(agent: UndoingAgent, turn: Turn, failure: string): Promise<Undone> {
  const input = turn.cause.id ?? "";
  const steps = (turn.steps ??= new TurnSteps());
  const isDone = (key: string): boolean => agent.image.steps.get(input)?.has(key) === true;
  const mayUndo = [...steps.undos.keys()].some((key) => isDone(key) || steps.inFlight.size > 0);
  if (!mayUndo && !isDone(UNDOING)) return { reason: failure, undone: false };
  const store = (step: DoneStep): Promise<void> => storeStep(agent, turn, step);
  if (!isDone(UNDOING)) await store({ key: UNDOING, text: JSON.stringify(failure) });
  // Rule 4.
  while (steps.inFlight.size > 0) await Promise.allSettled(steps.inFlight);
  await agent.unlessDiscarded();
  const done = agent.image.steps.get(input)!;
  const undos = [...steps.undos].filter(([key]) => done.has(key)).toReversed();
  const undone: string[] = [];
  const failed: string[] = [];
  for (const [key, { name, run }] of undos) {
    const own = `undo ${key}`;
    const text = done.get(key);
    if (!done.has(own))
      try {
        await run(own, text === undefined ? undefined : JSON.parse(text));
      } catch (error) {
        await agent.unlessDiscarded();
        await store({ key: own, text: JSON.stringify(turn.conceal(failureText(error))) });
      }
    const error = done.get(own);
    if (error === undefined) undone.push(name);
    else failed.push(`the undo of ${name} failed: ${JSON.parse(error) as string}`);
  }
  const lost = agent.image.stepsDone(input).filter((key) => !steps.asked.has(key));
  const told = [
    ...(undone.length === 0 ? [] : [`undone: ${undone.join(", ")}`]),
    ...failed,
    ...(lost.length === 0 ? [] : [`done, and not asked for by its last run: ${lost.join(", ")}`]),
  ];
  const reason = told.length === 0 ? failure : `${failure} (${told.join("; ")})`;
  return { reason, undone: undos.length > 0 };
}
