/**
 * What a commit owes the broker for the agent's schedules and queue items. Timers and queue
 * messages are stored first, the event after them. A trigger whose event never committed is
 * harmless, since each is checked against the agent's tables before it runs; an event without its
 * trigger would be a job that nothing starts.
 *
 * Lanes and the scheduler return their shares; `Committer` carries the sum out.
 */
import { rowChanges, type RowChanges } from "../journal/RowChanges.ts";

/** One commit's share: what to store before its event, cancel after it, and write into it. */
export interface CommitTriggers {
  /** Stores the triggers. Rejects when that can't be known: the commit fails. */
  readonly before: () => Promise<void>;
  /** Cancels what is not needed any more, on a best-effort basis. Absent: there is nothing. */
  readonly after?: () => void;
  /** For the event: rows added and ids removed. */
  readonly schedules?: RowChanges;
  readonly queue?: RowChanges;
}

/** Several shares as one; undefined when there is none. */
export function mergeTriggers(
  ...shares: ReadonlyArray<CommitTriggers | undefined>
): CommitTriggers | undefined {
  const owed = shares.filter((share) => share !== undefined);
  if (owed.length === 0) return undefined;
  const schedules = mergeRows(owed.map((share) => share.schedules));
  const queue = mergeRows(owed.map((share) => share.queue));
  return {
    before: async () => {
      await Promise.all(owed.map((share) => share.before()));
    },
    after: () => {
      for (const share of owed) share.after?.();
    },
    ...(schedules === undefined ? {} : { schedules }),
    ...(queue === undefined ? {} : { queue }),
  };
}

const mergeRows = (changes: ReadonlyArray<RowChanges | undefined>): RowChanges | undefined =>
  rowChanges(
    changes.flatMap((change) => change?.put ?? []),
    changes.flatMap((change) => change?.del ?? []),
  );
