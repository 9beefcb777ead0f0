/** I16: fibers. Returns what it found wrong, in words. */
import type { Violations } from "../../kit/checkers.ts";
import { MARCH_STEPS } from "../Marcher.ts";
import type { AgentHistory, RunHistory } from "../RunHistory.ts";
import { effectsOf, keyOfId } from "./effects.ts";

const WHOLE = Array.from({ length: MARCH_STEPS }, (_, n) => n + 1).join();

/**
 * I16: what began a fiber is stored ⇒ the fiber gets to its end on whichever hosts, and what it writes beside a stash is there
 * once, in order; nothing of it is left to do. What a provider was told is done began one.
 */
export function checkMarchesArrive(run: RunHistory): Violations {
  const wrong: string[] = [];
  const marchers = run.agents.filter(({ id }) => id.class === "Marcher");
  for (const history of marchers) wrong.push(...wrongSteps(history));
  for (const { id, agent, op, applied } of run.observed.sent.values()) {
    if (op !== "march" || !applied) continue;
    const history = marchers.find(({ id: of }) => of.name === agent);
    if (history === undefined || !effectsOf(history, []).done.has(keyOfId(id)))
      wrong.push(`${agent} said that ${id} is begun, and its journal does not`);
  }
  return wrong;
}

function wrongSteps({
  id: { name },
  events,
  steps,
  fibers,
  armed,
  refused,
}: AgentHistory): string[] {
  const wrong = refused === undefined ? [] : [`${name} can't be rebuilt: ${refused}`];
  const { done } = effectsOf({ events } as AgentHistory, []);
  const taken = new Map<string, number[]>();
  for (const row of steps ?? []) {
    const [march = "", step] = row.split(" ");
    taken.set(march, [...(taken.get(march) ?? []), Number(step)]);
  }
  for (const [key, times] of done) {
    const march = /^github:(march-\d+)$/.exec(key)?.[1];
    if (march === undefined) continue;
    if (times > 1) wrong.push(`${name}: ${key} was done ${times} times`);
    const found = taken.get(march)?.join() ?? "none";
    if (found !== WHOLE) wrong.push(`${name}: ${march} took the steps ${found}`);
    taken.delete(march);
  }
  for (const march of taken.keys()) wrong.push(`${name}: nobody began ${march}`);
  for (const fiber of fibers ?? []) wrong.push(`${name}: a fiber is owed: ${fiber}`);
  if (armed.length > 0) wrong.push(`${name}: its alarm is there: ${armed.join()}`);
  return wrong;
}
