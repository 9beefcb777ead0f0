/**
 * Runs one job of an agent (a queue item, a due schedule) as a durable turn, with its attempts.
 *
 * 1. The callback's writes and what settles the job (its row deleted or armed anew) are one commit;
 *    so a trigger that comes again finds nothing to run.
 * 2. A failed attempt is journaled, so that attempts count across hosts; the next follows after the
 *    policy's backoff. Writes of a failed attempt stay, as in the reference.
 * 3. After the last failed attempt the turn's steps are undone, and the job becomes a dead letter
 *    (`failForGood`). `onError` receives the error, once. The writes of `onError` are part of the
 *    commit that settles the job; its own errors are ignored.
 * 4. No attempt begins once the job's row is gone, nor while `blockConcurrencyWhile` holds turns
 *    back.
 * 5. A job that waited when its agent came to memory may be what killed the host before: it is
 *    journaled as begun before it runs (`Suspects`).
 * 6. A job without attempts left is journaled as begun, too, before `onError` runs, which may be
 *    what ended the process. The next owner settles the job without it.
 */
import type { Cause } from "../../schemas/JournalEvent.ts";
import { errorOfFailure, reasonText } from "../errors/failureText.ts";
import { LocalImageCorrupt } from "../database/Databases.ts";
import type { GivenUp } from "../dead/DeadLetters.ts";
import { failForGood } from "../turn/failForGood.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { backoffMs, lastAttempt, type ResolvedRetry } from "../retry/retryPolicy.ts";
import { Turn } from "../turn/Turn.ts";
import type { TurnEnd } from "../turn/TurnEnd.ts";

export interface JobAgent extends AgentTurns {
  readonly suspects: {
    /** The number of a key's next attempt. `journaled`: how many attempts the journal has. */
    next(key: string, journaled: number): number;
    /** The number of the last attempt that is known to have ended its process; 0: none. */
    ended(key: string): number;
    /** A job is dead, and that is stored. */
    settled(key: string): void;
    /** The error of a job whose last attempt did not end, and which has none left. */
    exhausted(key: string): string;
    /** Rule 5. Call what it resolves to when the attempt is over. */
    announce(turn: Turn, attemptsBefore: number): Promise<() => void>;
  };
}

/** What the journal shows of a payload, as JSON text, and the values that no text may contain. */
export interface ShownPayload {
  readonly text: string | null;
  readonly hidden?: ReadonlyArray<string>;
}

interface Job {
  readonly kind: "queue" | "schedule";
  /** The key of this run. */
  readonly key: string;
  readonly callback: string;
  readonly shown: ShownPayload;
  readonly retry: ResolvedRetry;
  /** Rule 5. */
  readonly suspect: boolean;
  /** Whether the job still has to run. Called before each attempt. */
  readonly isWanted: () => boolean;
  /** Called before the first attempt. */
  readonly onBegin?: () => void;
  readonly run: () => unknown;
  /** As in `Turn`, where a caller waits for the job. Default 0. */
  readonly depth?: number | undefined;
  /** Whether to try again after this error. Default: always. */
  readonly mayRetry?: (error: unknown) => boolean;
  /** Writes that belong to the run's last commit. */
  readonly settle: () => void;
  /**
   * Stores the dead letter. Rejects with `BrokerUnavailable`. Undefined: the job's caller receives
   * its failure, and no operator has to act.
   */
  readonly deadLetter: ((letter: GivenUp) => Promise<void>) | undefined;
  readonly onRetry: (attempt: number) => void;
  readonly onFailed: (error: unknown, attempts: number) => void;
}

/** Resolves once the job's end is stored. Rejects with `AgentDiscarded` or `BrokerUnavailable`. */
export async function runJob(agent: JobAgent, job: Job): Promise<void> {
  const begun = agent.image.begun.get(job.key);
  const before = agent.suspects.next(job.key, begun?.attempts ?? 0) - 1;
  const isKnown = before > 0 && agent.suspects.ended(job.key) === before;
  const undoing = agent.image.undoing(job.key);
  for (let attempt = before + 1; ; attempt++) {
    const turn = new Turn({
      cause: causeOf(job, attempt, agent.time.nowMs()),
      owner: agent,
      durable: true,
      depth: job.depth,
      conceals: job.shown.hidden,
    });
    const last = lastAttempt(job.retry, { isUndoing: undoing !== undefined, isKnown });
    if (attempt > last) {
      const error = errorOfFailure(undoing ?? agent.suspects.exhausted(job.key));
      return await failUnrun(agent, job, turn, error, { before, isSilent: attempt > last + 1 });
    }
    const cleared =
      job.suspect && attempt === before + 1
        ? await agent.suspects.announce(turn, before)
        : undefined;
    try {
      await agent.mayBegin();
      if (!job.isWanted()) return await forget(agent, job, turn);
      if (attempt === 1) job.onBegin?.();
      else job.onRetry(attempt);
      await agent.run(turn, async () => {
        await job.run();
        if (undoing === undefined) job.settle();
      });
      if (undoing !== undefined) throw errorOfFailure(undoing);
    } catch (error) {
      const nextInMs = await afterFailure(agent, job, turn, { error, attempt, undoing });
      if (nextInMs === undefined) return;
      cleared?.();
      await agent.sleep(nextInMs);
      continue;
    } finally {
      cleared?.();
    }
    turn.outcome = { done: [job.key], dead: false, error: undefined };
    return end(agent, turn, "done");
  }
}

/** Rule 6. No attempt is left. `before`: how many the journal has. */
async function failUnrun(
  agent: JobAgent,
  job: Job,
  turn: Turn,
  error: unknown,
  { before, isSilent }: { readonly before: number; readonly isSilent: boolean },
): Promise<void> {
  const cleared = isSilent ? undefined : await agent.suspects.announce(turn, before);
  await fail(agent, job, turn, error, { attempts: before, isSilent });
  cleared?.();
  agent.suspects.settled(job.key);
}

/** Rules 2 and 3. Resolves to the milliseconds until the next attempt; undefined: none follows. */
async function afterFailure(
  agent: JobAgent,
  job: Job,
  turn: Turn,
  failed: {
    readonly error: unknown;
    readonly attempt: number;
    readonly undoing: string | undefined;
  },
): Promise<number | undefined> {
  const { error, attempt, undoing } = failed;
  // As in `AgentSql`: this host's image is damaged, not the job.
  if (error instanceof LocalImageCorrupt) agent.abort(error.message);
  await agent.unlessDiscarded();
  const { rest } = turn;
  const { maxAttempts } = job.retry;
  if (undoing !== undefined || attempt >= maxAttempts || job.mayRetry?.(error) === false) {
    const reason = undoing === undefined ? error : errorOfFailure(undoing);
    await fail(agent, job, rest, reason, { attempts: attempt });
    return undefined;
  }
  rest.outcome = { done: [], dead: false, error: reasonOf(turn, error) };
  const nextInMs = backoffMs(job.retry, attempt, agent.time.random());
  await end(agent, rest, "failed", { attempts: maxAttempts, nextInMs });
  return nextInMs;
}

/** Rule 3. `isSilent`: `onError` does not run. */
async function fail(
  agent: JobAgent,
  job: Job,
  turn: Turn,
  error: unknown,
  { attempts, isSilent }: { readonly attempts: number; readonly isSilent?: boolean },
): Promise<void> {
  await failForGood(agent, turn, reasonOf(turn, error), async (letter) =>
    job.deadLetter?.({ ...letter, death: deathOf(agent, job) }),
  );
  job.onFailed(error, attempts);
  if (isSilent !== true) await agent.handleError(turn, error);
  await agent.unlessDiscarded();
  const { rest } = turn;
  await agent.run(rest, job.settle);
  const dead = job.deadLetter !== undefined;
  rest.outcome = { done: [job.key], dead, error: reasonOf(turn, error) };
  await end(agent, rest, dead ? "dead" : "failed", { attempts: job.retry.maxAttempts });
}

/** A job that a restore has put back, with its key, may die a second time. */
function deathOf({ image }: JobAgent, { key }: Job): string {
  const { restoredAt } = image.done;
  return restoredAt === undefined ? key : `${key}@${restoredAt}`;
}

const reasonOf = (turn: Turn, error: unknown): string => turn.conceal(reasonText(error));

/** Rule 4: the job was cancelled between two attempts, or before the first. */
async function forget(agent: JobAgent, job: Job, turn: Turn): Promise<void> {
  if (!agent.image.begun.has(job.key)) return agent.committer.stored();
  turn.outcome = { done: [job.key], dead: false, error: undefined };
  await end(agent, turn);
}

/** `status` absent: the job is gone, and nothing is reported. */
async function end(
  agent: JobAgent,
  turn: Turn,
  status?: TurnEnd["status"],
  retry?: Pick<TurnEnd, "attempts" | "nextInMs">,
): Promise<void> {
  await agent.unlessDiscarded();
  agent.committer.end(turn);
  await agent.committer.stored();
  if (status === undefined) return;
  const { error } = turn.outcome!;
  agent.report(turn, { status, seq: agent.image.seq, error, ...retry });
}

const causeOf = (job: Job, attempt: number, time: number): Cause => ({
  kind: job.kind,
  id: job.key,
  type: job.callback,
  time,
  ...(attempt === 1 ? {} : { attempt }),
  ...(job.shown.text === null ? {} : { body: job.shown.text }),
});
