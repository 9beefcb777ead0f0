/** I24: approvals. Returns its findings as text. */
import type { Violations } from "../../kit/checkers.ts";
import { TAKEN } from "../Asker.ts";
import type { RunHistory } from "../rig/RunHistory.ts";
import { effectsOf } from "./effects.ts";

/**
 * I24: a question that is stored ends once, on whichever hosts: with the one decision that was
 * taken, or by its time, and then with none. Who asked, who decided and the agent's list of
 * approvals say the same.
 */
export function checkPetitionsEnd({ agents }: RunHistory): Violations {
  const askers = agents.filter(({ id }) => id.class === "Asker");
  return askers.flatMap((history) => {
    const { name } = history.id;
    if (history.refused !== undefined) return [`${name} can't be rebuilt: ${history.refused}`];
    const answers = rowsOf(history.answers);
    const votes = rowsOf(history.votes);
    const approvals = rowsOf(history.approvals);
    const of = (rows: string[][], petition: string): string[] =>
      rows.filter(([id]) => id === petition).map(([, ...rest]) => rest.join(" "));
    const begun = [...effectsOf(history, []).done.keys()]
      .filter((key) => key.startsWith("github:petition-"))
      .map((key) => key.slice("github:".length));
    const all = new Set([...begun, ...answers.map(([id = ""]) => id)]);
    return [
      ...(history.fibers ?? []).map((fiber) => `${name}: a fiber is owed: ${fiber}`),
      ...[...all].flatMap((petition) => {
        const [answer = "none", ...more] = of(answers, petition);
        const taken = of(votes, petition).filter((vote) => vote.endsWith(` ${TAKEN}`));
        const expected = answer.startsWith("expired") ? [] : [`${answer} ${TAKEN}`];
        const listed = of(approvals, petition);
        return [
          ...(more.length === 0 ? [] : [`${petition} was answered ${1 + more.length} times`]),
          ...(taken.join() === expected.join()
            ? []
            : [`${petition} was answered ${answer}, and decided by: ${taken.join(", ")}`]),
          ...(listed.join() === answer
            ? []
            : [`${petition} was answered ${answer}, and is listed as ${listed.join(", ")}`]),
        ];
      }),
    ];
  });
}

/** A text that is empty is a column all the same. */
const rowsOf = (rows: ReadonlyArray<string> | undefined): string[][] =>
  (rows ?? []).map((row) => row.split(" "));
