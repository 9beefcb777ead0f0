/** The states that a journal goes through: after each event, and after each turn within it. */
import type { Sequence } from "../../../schemas/Address.ts";
import { AgentImage } from "../../../core/journal/AgentImage.ts";
import { applyEvent } from "../../../core/journal/applyEvent.ts";
import { applyState } from "../../../core/journal/stateChange.ts";
import type { AgentHistory } from "../rig/RunHistory.ts";

export interface StatesOf {
  /** JSON text after each event. */
  readonly after: ReadonlyArray<string | undefined>;
  /** By sequence: every text that was the state during that event, its beginning and end too. */
  readonly within: ReadonlyMap<number, ReadonlySet<string>>;
  /** The first event that does not follow the one before it, in words. */
  readonly broken: string | undefined;
}

/** Several checkers ask. */
const known = new WeakMap<AgentHistory, StatesOf>();

export function statesOf(history: AgentHistory): StatesOf {
  let states = known.get(history);
  if (states === undefined) known.set(history, (states = walk(history)));
  return states;
}

function walk({ id, events }: AgentHistory): StatesOf {
  const image = new AgentImage(id);
  const after: Array<string | undefined> = [];
  const within = new Map<number, ReadonlySet<string>>();
  for (const { seq, head } of events) {
    const texts = new Set<string>();
    let text = image.state;
    // A client that connects while turns of the same commit have not written yet receives it.
    if (text !== undefined) texts.add(text);
    try {
      for (const turn of head.turns)
        if (turn.state !== undefined) {
          text = applyState(text, turn.state);
          if (text !== undefined) texts.add(text);
        }
      applyEvent(image, seq as Sequence, head);
    } catch (error) {
      return { after, within, broken: `event ${seq}: ${(error as Error).message}` };
    }
    if (image.state !== undefined) texts.add(image.state);
    within.set(seq, texts);
    after.push(image.state);
  }
  return { after, within, broken: undefined };
}
