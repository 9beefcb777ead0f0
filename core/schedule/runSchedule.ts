/**
 * One run of a schedule that is due: its callback, its attempts, and what is due next.
 *
 * 1. A run, what it wrote, and what is due next are one commit: the row of a one-shot is removed, a
 *    cron's gets its next time (`dueTimes`), and an interval's is due one interval after the end of
 *    the run.
 * 2. An interval that runs past `hungScheduleTimeoutSeconds` is declared hung: its mark is cleared
 *    and it is due again; the old callback can't be stopped, but is not tried again and settles
 *    nothing.
 * 3. What users' SQL left in the row never costs more than this run: retry options that can't be
 *    read count as none, a cron expression that has no next time leaves the row unarmed.
 *
 * `Scheduler` calls it for a row that it has checked; `runJob` does the attempts.
 */
import { messageOf } from "../errors/thrown.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import type { CronShape } from "./Cron.ts";
import { INTERVAL_SECONDS_MAX } from "./Schedule.ts";
import {
  payloadOf,
  retryOf,
  toSchedule,
  type ScheduleRow,
  type ScheduleTable,
} from "./ScheduleTable.ts";
import { methodOf } from "../queue/methodOf.ts";
import { dueOf, isSkipped, nextDue } from "./dueTimes.ts";
import { deadInput, type JobPorts, type QueueAgent } from "../queue/QueueLane.ts";
import { resolveRetry, type ResolvedRetry } from "../retry/retryPolicy.ts";
import { runJob } from "../queue/runJob.ts";

export interface ScheduleAgent extends QueueAgent {
  readonly options: {
    readonly retry?: RetryOptions;
    /** Rule 2. */
    readonly hungScheduleTimeoutSeconds?: number;
  };
}

interface ScheduleRun {
  readonly row: ScheduleRow;
  readonly dueMs: number;
  readonly key: string;
  readonly table: ScheduleTable;
  readonly cron: CronShape;
  readonly deadLetter: JobPorts["deadLetter"];
  /** The table was written: the next commit reads it. */
  readonly touched: () => void;
  /** Rule 2: the schedule's next run may begin. */
  readonly onHung: () => void;
}

/** Rule 2; the default of `static options`. */
export const HUNG_SCHEDULE_TIMEOUT_SECONDS = 30;

/** Resolves when the run is settled and that is stored. Rejects as `runJob` does. */
export async function runSchedule(agent: ScheduleAgent, run: ScheduleRun): Promise<void> {
  const { row, dueMs, key, table } = run;
  const { id, callback } = row;
  const startedMs = agent.time.nowMs();
  const begun = agent.image.begun.has(key);
  const missed = !begun && isSkipped(row, dueMs, startedMs);
  const { retry, invalid } = policyOf(agent, row);
  const watch = row.type === "interval" ? watchHung(agent, run, startedMs) : undefined;
  const missing = () => new Error(`this.${callback} is not a function`);
  let begins = begun;
  try {
    await runJob(agent, {
      kind: "schedule",
      key,
      callback,
      shown: { text: row.payload },
      retry,
      suspect: dueMs < agent.startedMs,
      // A schedule that moved before its run began runs at its new time. If its own callback moved
      // it, this run continues.
      isWanted: () => {
        const now = table.get(id);
        return now !== undefined && (begins || dueOf(now) === dueMs);
      },
      onBegin: () => {
        begins = true;
        if (missed) agent.emit("schedule:misfire", { callback, id, lateMs: startedMs - dueMs });
        else agent.emit("schedule:execute", { callback, id });
      },
      run: () => {
        if (missed) return undefined;
        if (invalid !== undefined) throw invalid;
        // Others see the mark only if the run is long enough to be committed in parts.
        table.setRunning(id, startedMs);
        const now = table.get(id) ?? row;
        return methodOf(
          agent.agent,
          now.callback,
          missing,
        )(payloadOf(now.payload), toSchedule(now));
      },
      mayRetry: () => watch?.hung !== true,
      settle: () => {
        if (watch?.hung !== true) settle(agent, run);
      },
      deadLetter: (letter) =>
        run.deadLetter(
          deadInput({ kind: "schedule", key, retry }, row, agent.time.nowMs()),
          letter,
        ),
      onRetry: (attempt) =>
        agent.emit("schedule:retry", { callback, id, attempt, maxAttempts: retry.maxAttempts }),
      onFailed: (error, attempts) =>
        agent.emit("schedule:error", { callback, id, error: messageOf(error), attempts }),
    });
  } finally {
    watch?.cancel();
  }
}

/** `invalid`: the class's own options are out of range: shown once a run (`protocol.md` §6.5). */
function policyOf(
  agent: ScheduleAgent,
  row: ScheduleRow,
): { readonly retry: ResolvedRetry; readonly invalid?: unknown } {
  const given: RetryOptions | undefined = retryOf(row.retryOptions);
  try {
    return { retry: resolveRetry(agent.options.retry, given) };
  } catch (invalid) {
    return { retry: { ...resolveRetry(), maxAttempts: 1 }, invalid };
  }
}

/** Rule 1, unless the callback itself cancelled or moved the schedule. */
function settle(agent: ScheduleAgent, { row, dueMs, table, cron, touched }: ScheduleRun): void {
  const now = table.get(row.id);
  touched();
  if (now === undefined) return;
  const moved = dueOf(now) !== dueMs;
  if (!moved && (now.type === "scheduled" || now.type === "delayed")) {
    table.remove(row.id);
    return;
  }
  if (now.running) table.setRunning(row.id, null);
  if (moved) return;
  table.setDue(row.id, nextDueOrNone(agent, now, { dueMs, cron }));
}

/** Rule 3. Null: unarmed. */
function nextDueOrNone(
  agent: ScheduleAgent,
  row: ScheduleRow,
  { dueMs, cron }: Pick<ScheduleRun, "dueMs" | "cron">,
): number | null {
  try {
    return nextDue(row, dueMs, agent.time.nowMs(), cron);
  } catch (error) {
    agent.log.error("a schedule has no next time; its row is kept, unarmed", {
      schedule: row.id,
      error: messageOf(error),
    });
    return null;
  }
}

/** Rule 2. */
function watchHung(
  agent: ScheduleAgent,
  { row, table, touched, onHung }: ScheduleRun,
  startedMs: number,
): { readonly cancel: () => void; hung: boolean } {
  const { hungScheduleTimeoutSeconds = HUNG_SCHEDULE_TIMEOUT_SECONDS } = agent.options;
  const declare = (): void => {
    if (agent.discarded) return;
    watch.hung = true;
    agent.log.warn("an interval's run is hung; it is due again", {
      schedule: row.id,
      callback: row.callback,
    });
    agent.emit("schedule:hung", { callback: row.callback, id: row.id, startedMs });
    // A turn of its own, so that history does not attribute the reset to the hung run.
    const turn = agent.newTurn({ kind: "schedule", type: row.callback });
    const write = (): void => {
      const now = table.get(row.id);
      if (now === undefined) return;
      const seconds = now.intervalSeconds ?? INTERVAL_SECONDS_MAX;
      table.setRunning(row.id, null);
      table.setDue(row.id, Math.ceil(agent.time.nowMs() + seconds * 1000));
      touched();
    };
    agent.run(turn, write).catch((error: unknown) => {
      if (!agent.discarded) agent.abort(`a hung schedule can't be reset: ${messageOf(error)}`);
    });
    onHung();
  };
  const cancel =
    hungScheduleTimeoutSeconds === 0
      ? (): void => undefined
      : agent.time.after(hungScheduleTimeoutSeconds * 1000, declare);
  const watch = { cancel, hung: false };
  return watch;
}
