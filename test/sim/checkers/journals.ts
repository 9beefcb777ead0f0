/** I2, I3, I11, I12, I18: what is stored. Each function returns its findings as text. */
import { addressKey } from "../../../schemas/Address.ts";
import { checkEpochs, checkSame, type Violations } from "../../kit/checkers.ts";
import type { RunHistory } from "../rig/RunHistory.ts";
import { DOOMED } from "../simErase.ts";
import { statesOf } from "./states.ts";

const whole = ({ agents, observed }: RunHistory) =>
  agents.filter(({ id }) => !observed.damaged.has(id.name));

/** I2: every event follows the one before it, and all ways to rebuild an agent agree in bytes. */
export function checkReplayIsExact(run: RunHistory): Violations {
  return whole(run).flatMap((history) => {
    const { id, refused, pictures } = history;
    const { broken } = statesOf(history);
    if (broken !== undefined) return [`${addressKey(id)}: ${broken}`];
    if (refused !== undefined) return [`${addressKey(id)} can't be rebuilt: ${refused}`];
    return checkSame(id, pictures);
  });
}

/** I3: epochs never go back along a journal, and one epoch is one host's. */
export function checkOneOwnerAnEpoch(run: RunHistory): Violations {
  return run.agents.flatMap(checkEpochs);
}

/** I11, of a run whose operator erased an agent at rest. */
export function checkErasureLeftNothing({ observed, stored }: RunHistory): Violations {
  if (observed.eraseFailed) return [`the operator was not told that ${DOOMED} is gone`];
  return observed.erased === undefined ? [] : checkErasedIsGone(stored(), observed.erased);
}

/** I11: no byte of an erased agent's payload is left. `erased`: the content of its payload. */
export function checkErasedIsGone(
  stored: Iterable<{ readonly where: string; readonly bytes: Uint8Array }>,
  erased: ReadonlyArray<string>,
): Violations {
  const wrong: string[] = [];
  for (const { where, bytes } of stored) {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    for (const secret of erased) if (text.includes(secret)) wrong.push(`${where} holds ${secret}`);
  }
  return wrong;
}

/** I18: the rest of a trimmed journal and its base rebuild the same bytes as all its history. */
export function checkTrimmingLosesNothing(run: RunHistory): Violations {
  return whole(run).flatMap(({ id, differing }) =>
    differing.map((way) => `${addressKey(id)}, trimmed: ${way} differs from the whole history`),
  );
}

/** I12: readers of a damaged event detect it: the agent is quarantined, nothing is cut short. */
export function checkDamageIsFound(run: RunHistory): Violations {
  const wrong: string[] = [];
  for (const { id, unreadable, refused } of run.agents) {
    const seq = run.observed.damaged.get(id.name);
    if (seq === undefined) {
      if (unreadable.length > 0)
        wrong.push(`${id.name}: events ${unreadable.join()} can't be read`);
      continue;
    }
    if (!unreadable.includes(seq)) wrong.push(`${id.name}: the damage of event ${seq} is not seen`);
    if (refused === undefined) wrong.push(`${id.name} is rebuilt past the damage of event ${seq}`);
  }
  for (const status of run.observed.damagedAnswers)
    if (status >= 200 && status < 300) wrong.push(`a damaged agent answered ${status}`);
  return wrong;
}
