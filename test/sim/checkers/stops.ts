/** I21: what becomes of turns when the watchdog ends a process in mid-turn. */
import type { Violations } from "../../kit/checkers.ts";
import type { Run, Stopped } from "../rig/Observed.ts";
import type { RunHistory } from "../rig/RunHistory.ts";
import { MAX_ATTEMPTS } from "../subjects.ts";

/** `CLEAN_MS` of `IsolationWard`: an agent that has ended a worker is isolated at least so long. */
const ISOLATED_MS = 20_000;
/** Their code neither fails nor waits for anybody. */
const NEVER_FAIL = new Set(["mark", "slow", "split"]);

/**
 * I21: the attempt that ends a process counts at the first death; the culprit's later attempts end
 * no process of others; an innocent turn that was interrupted spends no attempt.
 */
export const checkStopsHarmNobody = (run: RunHistory): Violations => [
  ...checkCulprits(run.observed.stopped),
  ...checkInnocents(run),
];

function checkCulprits(stopped: ReadonlyArray<Stopped>): Violations {
  const wrong: string[] = [];
  for (const [at, second] of stopped.entries()) {
    const before = stopped.slice(0, at).filter(({ machine }) => machine === second.machine);
    const worker = before.findLast(({ name, isWorker }) => isWorker && name === second.name);
    if (second.isWorker && worker !== undefined && second.atMs - worker.atMs < ISOLATED_MS)
      wrong.push(`${second.name} ended ${worker.host} and then ${second.host}, with all in it`);
    // A copy that comes when the one before is dead begins anew: here, or on another machine.
    const same = stopped.slice(0, at).findLast(({ key }) => key === second.key);
    const isCounted = same?.machine === second.machine && same.attempt < MAX_ATTEMPTS;
    if (isCounted && second.attempt <= same.attempt)
      wrong.push(`${second.key} ended processes at attempts ${same.attempt}, ${second.attempt}`);
  }
  return wrong;
}

function checkInnocents({ observed: { stopped, runs }, agents }: RunHistory): Violations {
  const wrong: string[] = [];
  // A host that had the agent in between may have begun the turn, and have been ended, too. Of an
  // agent that was erased nobody knows.
  const wasElsewhere = (before: Run, after: Run): boolean => {
    const stored = agents.flatMap(({ id, events }) => (id.name === before.agent ? events : []));
    const isElse = ({ head, storedMs }: (typeof stored)[number]): boolean =>
      storedMs >= before.atMs &&
      storedMs <= after.atMs &&
      ![before.host, after.host].includes(head.host);
    return !stored.some(({ storedMs }) => storedMs <= before.atMs) || stored.some(isElse);
  };
  for (const { host, key: culprit, isWorker, atMs } of stopped) {
    if (!isWorker) continue;
    const last = new Map<string, Run>();
    for (const run of runs) {
      const { key } = run;
      if (key === culprit || !NEVER_FAIL.has(run.op)) continue;
      const before = last.get(key);
      if (run.atMs <= atMs) last.set(key, run);
      else if (before !== undefined) {
        last.delete(key);
        const isNext = before.host === host && run.host === nextOf(host);
        if (isNext && run.attempt > before.attempt && !wasElsewhere(before, run))
          wrong.push(
            `${key} was interrupted by ${culprit}, and ran again as attempt ${run.attempt}, not ${before.attempt}`,
          );
      }
    }
  }
  return wrong;
}

/** The worker that takes the place of one: `host-0.4` that of `host-0.3`. */
const nextOf = (host: string): string =>
  host.replace(/\d+$/, (number) => String(Number(number) + 1));
