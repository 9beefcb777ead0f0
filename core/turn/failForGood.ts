/**
 * What a durable turn leaves when it has failed for good: its done steps are undone, and its dead
 * letter is stored. Meanwhile other writes wait for the turn, as they do for a turn in a step
 * (`Holds`, rule 2). Otherwise another turn's event could follow what this turn stored as a part;
 * the part would stand, and if the host then ended, the turn would run and write again.
 */
import type { AgentTurns, Undone } from "./AgentTurns.ts";
import type { Turn } from "./Turn.ts";
import { TurnSteps } from "./TurnSteps.ts";

/**
 * Resolves when both are done; the caller then ends the turn. `deadLetter`: stores it.
 * Rejects as `AgentTurns.undo` and `deadLetter` do.
 */
export async function failForGood(
  agent: Pick<AgentTurns, "undo" | "committer">,
  turn: Turn,
  failure: string,
  deadLetter: (letter: Undone) => Promise<void>,
): Promise<Undone> {
  const steps = (turn.steps ??= new TurnSteps());
  steps.running++;
  try {
    const letter = await agent.undo(turn, failure);
    await deadLetter(letter);
    return letter;
  } finally {
    steps.running--;
    agent.committer.endStep(turn);
  }
}
