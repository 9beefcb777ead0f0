/** I23: agents that were restored. Returns its findings as text. */
import type { Violations } from "../../kit/checkers.ts";
import type { AgentHistory, RunHistory } from "../rig/RunHistory.ts";
import { keyOfId } from "./effects.ts";

/**
 * I23: after a restore, state, rows and schedules are what they were at its point. Restoring the
 * event before it undoes it. Everything done after it is there, once. A restore that was confirmed
 * to the operator is exactly one event of the journal, however often it was asked for.
 */
export function checkRestoresPutBack(run: RunHistory): Violations {
  const { agents, observed } = run;
  const tapes = agents.filter(({ id }) => id.class === "Tape");
  return [
    ...lostOf(run, tapes),
    ...tapes.flatMap((history) => {
      const { name } = history.id;
      if (history.refused !== undefined) return [`${name} can't be rebuilt: ${history.refused}`];
      return [
        ...history.points.flatMap(
          ({ seq, at, before, after }) =>
        before === after ? [] : [`${name} event ${seq} does not put back what was at ${at}: ${after}, and not ${before}`], // prettier-ignore
        ),
        ...notesOf(history),
        ...eventsOf(history, observed.restores),
      ];
    }),
  ];
}

/** Orders that were accepted, and are neither done nor dead. */
function lostOf({ observed, letters }: RunHistory, tapes: ReadonlyArray<AgentHistory>): Violations {
  const known = new Set(letters.map(({ agent, key }) => `${agent} ${key}`));
  for (const { id, events } of tapes)
    for (const { head } of events)
      for (const { done = [] } of head.turns)
        for (const key of done) known.add(`${id.name} ${key}`);
  return [...observed.sent.values()]
    .filter(({ op, statuses }) => op === "tape" && statuses.some((status) => status >= 200 && status < 300))
    .flatMap(({ id, agent }) => known.has(`${agent} ${keyOfId(id)}`) ? [] : [`${agent} ${id} was accepted, and is neither done nor dead`]); // prettier-ignore
}

/** The notes that must exist: those of the restored point, and those written since. */
function notesOf({ id: { name }, events, notes = [], pictures }: AgentHistory): Violations {
  const after = new Map<number, ReadonlyArray<string>>();
  const keys = new Map<string, number>();
  let expected: ReadonlyArray<string> = [];
  const wrote = new Set<string>();
  for (const { seq, head } of events) {
    for (const { cause, state, done = [], dead, restored } of head.turns) {
      const { id = "" } = cause;
      for (const key of done) keys.set(key, (keys.get(key) ?? 0) + 1);
      if (restored !== undefined) expected = after.get(restored.seq ?? 0) ?? [];
      else if (WRITES.has(cause.kind) && state !== undefined) wrote.add(id);
      // A schedule whose row is gone by then is done without having run.
      if (done.length > 0 && wrote.delete(id) && dead !== true) expected = [...expected, id];
    }
    after.set(seq, expected);
  }
  const { count = 0 } = (pictures[0]?.state ?? {}) as { readonly count?: number };
  return [
    ...[...keys].flatMap(([key, times]) => times > 1 && !key.startsWith("schedule:") ? [`${name}: ${key} was done ${times} times`] : []), // prettier-ignore
    ...(notes.join() === expected.join()
      ? []
      : [`${name} has the notes ${notes.join()}, and by its journal ${expected.join()}`]),
    ...(count === notes.length ? [] : [`${name} counts ${count}, and has ${notes.length} notes`]),
  ];
}

const WRITES: ReadonlySet<string> = new Set(["webhook", "schedule"]);

function eventsOf(
  { id: { name }, events }: AgentHistory,
  told: RunHistory["observed"]["restores"],
): Violations {
  const found = new Map<number, number>();
  const keys = new Map<string, number>();
  for (const { seq, head } of events)
    for (const { cause, restored } of head.turns)
      if (restored !== undefined) {
        found.set(seq, restored.seq ?? 0);
        keys.set(cause.id ?? "", (keys.get(cause.id ?? "") ?? 0) + 1);
      }
  return [
    ...told
      .filter(({ agent, at, restored }) => agent === name && found.get(restored) !== at)
      .map(({ at, restored }) => `${name} was said to be put back to ${at} by event ${restored}`),
    ...[...keys].flatMap(([key, times]) =>
      times > 1 ? [`${name}: ${key} has ${times} events`] : [],
    ),
  ];
}
