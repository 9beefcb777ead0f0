/** I1, I4, I7, I8: the processing of inputs. Each function returns its findings as text. */
import type { Cause } from "../../../schemas/JournalEvent.ts";
import { agentId, shardOf } from "../../../schemas/Address.ts";
import { keyOfShard } from "../../../core/lease/leaseKeys.ts";
import type { Violations } from "../../kit/checkers.ts";
import { LEASE_TTL_MS, SHARDS } from "../Installation.ts";
import type { Observed } from "../rig/Observed.ts";
import type { AgentHistory, RunHistory } from "../rig/RunHistory.ts";
import { DOOMED } from "../simErase.ts";
import { MAX_ATTEMPTS } from "../subjects.ts";
import { MAIL_RETRY_DEFAULT } from "../../../core/outgoing/MailLane.ts";
import { effectsOf, keyOfId } from "./effects.ts";
import { statesOf } from "./states.ts";

/** Agents whose journal was neither damaged nor erased. I12 and I11 cover the others. */
const whole = ({ agents, observed }: RunHistory): AgentHistory[] =>
  agents.filter(
    ({ id }) => id.class === "Ledger" && !observed.damaged.has(id.name) && id.name !== DOOMED,
  );

const parsed = (history: AgentHistory): unknown[] =>
  statesOf(history).after.map((text) => (text === undefined ? undefined : JSON.parse(text)));

/** I1: an input that got a 2xx is done once or a dead letter, and its mark is stored once. */
export function checkAcceptedIsAppliedOnce(run: RunHistory): Violations {
  const wrong: string[] = [];
  const letters = new Set(run.letters.map(({ agent, key }) => `${agent} ${key}`));
  const seen = new Set<string>();
  for (const history of whole(run)) {
    const { name } = history.id;
    const { done, marks } = effectsOf(history, parsed(history));
    for (const [key, times] of done) {
      seen.add(`${name} ${key}`);
      if (times > 1) wrong.push(`${name}: ${key} was done ${times} times`);
      if (key.startsWith("github:") && !run.observed.sent.has(key.slice("github:".length)))
        wrong.push(`${name}: ${key} was done and never sent`);
    }
    const applied = count(history.marks ?? []);
    const expected = count(marks);
    for (const key of new Set([...applied.keys(), ...expected.keys()]))
      if (applied.get(key) !== expected.get(key))
        wrong.push(
          `${name}: ${key} is ${applied.get(key) ?? 0} times in SQL, ${expected.get(key) ?? 0} by the journal`,
        );
  }
  for (const { id, agent, statuses, applied, op } of run.observed.sent.values()) {
    // Marches are I16's, calls I20's, payments I22's, tapes I23's, petitions I24's.
    if (ELSEWHERE.has(op)) continue;
    if (run.observed.damaged.has(agent) || agent === DOOMED || op === "march") continue;
    const at = `${agent} ${keyOfId(id)}`;
    const accepted = statuses.some((status) => status >= 200 && status < 300);
    if (accepted && !seen.has(at) && !letters.has(at))
      wrong.push(`${at} (${op}) was answered ${statuses.join(", ")}; it is neither done nor dead`);
    if (applied && !seen.has(at))
      wrong.push(`${at} (${op}) was said to be applied and is not done`);
  }
  return wrong;
}

/** I4: after each event the state, which counts marks, agrees with the inputs and jobs done. */
export function checkCommitsAreWhole(run: RunHistory): Violations {
  return whole(run).flatMap((history) =>
    effectsOf(history, parsed(history))
      .counts.filter(({ marks, state }) => marks !== state)
      .slice(0, 1)
      .map(
        ({ seq, marks, state }) =>
          `${history.id.name} event ${seq}: the state counts ${state} marks, done are ${marks}`,
      ),
  );
}

/** `SUSPECT_AGE_MS` of `InputDoubts`: an input no older is not announced at the agent's wake. */
const YOUNG_MS = 3_000;
/**
 * Three runs that were lost without a trace while the input was young, as that is two leases of a
 * run, and one that was marked. A host whose clock is behind takes an input for younger than it is.
 */
const UNKNOWN_RUNS_MAX = 4;
const JUMPED_RUNS_MAX = 6;

/**
 * How often an agent's next owner came sooner than a lease lives while one of the copies that were
 * stored at `copiesMs` was young: each time one more host may die of it without a trace.
 */
function earlyOwners(
  { leasesCut }: Observed,
  agent: string,
  copiesMs: ReadonlyArray<number>,
): number {
  const lease = keyOfShard(shardOf(agentId("Ledger", agent), SHARDS));
  return leasesCut.filter(
    ({ key, atMs }) =>
      key === lease && copiesMs.some((ms) => atMs > ms - LEASE_TTL_MS && atMs < ms + YOUNG_MS),
  ).length;
}

/** I7: no attempt past the limit and one marked; a killing input is dead after as many deaths. */
export function checkAttemptsAreBounded(run: RunHistory): Violations {
  const wrong: string[] = [];
  // A workflow's drives and steps have limits of their own.
  for (const { id, events } of run.agents.filter((agent) => agent.id.class !== "Errand"))
    for (const { seq, head } of events)
      for (const { cause, dead, error, begun } of head.turns) {
        // A durable call that has failed is no dead letter.
        const isOver = dead === true || (isDurableCall(cause) && error !== undefined);
        // A job that is over is begun once more, for `onError` (`runJob`, rule 6).
        const more = isOver ? 3 : begun === true ? 2 : 1;
        if ((cause.attempt ?? 1) > attemptsOf(cause.id, id.class) + more)
          wrong.push(`${id.name} event ${seq}: attempt ${cause.attempt} of ${cause.id}`);
      }
  const poison = count(run.observed.runs.filter(({ op }) => op === "poison").map(({ key }) => key));
  const { copies, offers, disruptions } = run.observed;
  for (const [key, times] of poison) {
    const stored = copies.get(key)?.length ?? 0;
    const ended = offers.get(key)?.ended ?? 0;
    if (times > MAX_ATTEMPTS * (stored + ended) + disruptions)
      wrong.push(`${key} failed ${times} times, stored ${stored} times and given ${ended}`);
  }
  const killers = run.observed.runs.filter(({ op }) => op === "kill");
  const agentOf = new Map(killers.map((kill) => [kill.key, kill.agent]));
  // An end that another agent caused excuses one beginning.
  const excuses = run.observed.stopped.filter(({ isWorker }) => isWorker).length;
  for (const [key, times] of count(killers.map((kill) => kill.key))) {
    // Each copy in the inbox that comes when the one before it is dead begins anew; one that was
    // only given kills once.
    const copiesMs = copies.get(key) ?? [];
    const stored = copiesMs.length;
    const given = offers.get(key)?.all ?? 0;
    const early = earlyOwners(run.observed, agentOf.get(key)!, copiesMs);
    const unknown = UNKNOWN_RUNS_MAX + (run.observed.clockJumped ? JUMPED_RUNS_MAX : 0);
    if (times > (MAX_ATTEMPTS + unknown) * stored + given + early + excuses)
      wrong.push(
        `${key} killed ${times} hosts, stored ${stored} times, given ${given}, ${early} leases cut short`,
      );
  }
  return wrong;
}

/** Orders that other checkers look at. */
const ELSEWHERE: ReadonlySet<string> = new Set(["call", "pay", "tape", "petition", "vote"]);

/** `CallLane`. */
const isDurableCall = ({ id = "" }: Cause): boolean => id.startsWith("call:");

/** `core/retry/retryPolicy`: an input whose steps are being undone runs again so many deaths on. */
const UNDOING_DEATHS_MAX = 20;

/** Mail has more attempts than other jobs; a message to a workflow is sent until it is stored. */
function attemptsOf(key = "", className: string): number {
  if (key.startsWith("signal-out:")) return Infinity;
  if (key.startsWith("mail-out:")) return MAIL_RETRY_DEFAULT.maxAttempts;
  return className === "Payer" ? MAX_ATTEMPTS + UNDOING_DEATHS_MAX : MAX_ATTEMPTS;
}

/** Virtual time; a healthy installation needs a few hops. */
const PROBE_MS_MAX = 500;

/** I8: after repairs every agent answers at once, whatever blocks others; nothing waits forever. */
export function checkPoisonBlocksNobody(run: RunHistory): Violations {
  const { probes, damaged } = run.observed;
  return [
    ...probes
      .filter(({ status, tookMs }) => status !== 200 || tookMs > PROBE_MS_MAX)
      .map(({ agent, status, tookMs }) => `${agent} answered ${status} after ${tookMs} ms`),
    ...run.waiting
      .filter(({ agent }) => !damaged.has(agent))
      .map(({ agent, key }) => `${agent} ${key} still waits`),
  ];
}

function count(keys: ReadonlyArray<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}
