/** I5, I6: schedules and jobs. Each function returns its findings as text. */
import { readKey } from "../../../core/schedule/planAlarms.ts";
import type { Violations } from "../../kit/checkers.ts";
import type { Run } from "../rig/Observed.ts";
import type { AgentHistory, RunHistory } from "../rig/RunHistory.ts";
import { DOOMED } from "../simErase.ts";
import { effectsOf, orderOf } from "./effects.ts";

/** Between a due instant and its run, with nothing broken: a timer, an activation, a turn. */
const LATE_MS_MAX = 4_000;

const ticksOf = ({ observed }: RunHistory): ReadonlyArray<Run> =>
  observed.runs.filter(({ op }) => op === "tick");

const ledgers = ({ agents, observed }: RunHistory): AgentHistory[] =>
  agents.filter(
    ({ id }) => id.class === "Ledger" && !observed.damaged.has(id.name) && id.name !== DOOMED,
  );

/** I5: not before its host's clock says so; one-shots run or are cancelled; one effect each. */
export function checkSchedulesRunWhenDue(run: RunHistory): Violations {
  const wrong: string[] = [];
  for (const { key, wallMs, agent } of ticksOf(run)) {
    const [, dueMs] = readKey(key);
    if (wallMs < dueMs) wrong.push(`${agent} ${key} ran ${dueMs - wallMs} ms before it was due`);
  }
  for (const history of ledgers(run)) {
    const { done } = effectsOf(history, []);
    for (const [key, times] of done)
      if (key.startsWith("schedule:") && times > 1)
        wrong.push(`${history.id.name} ${key} was done ${times} times`);
    if (history.armed.length > 0)
      wrong.push(`${history.id.name}: ${history.armed.join()} were cancelled and are there`);
    wrong.push(...missed(run, history));
  }
  return wrong;
}

interface Row {
  readonly id: string;
  readonly type: string;
  /** Seconds, rounded up. */
  readonly time: number;
}

/** One-shots due long before they were cancelled; intervals that stood still without reason. */
function missed(run: RunHistory, { id, events }: AgentHistory): string[] {
  const wrong: string[] = [];
  const rows = new Map<string, Row>();
  const ran = new Set(
    ticksOf(run)
      .filter(({ atMs }) => atMs > run.calmFromMs)
      .map(idOfRun),
  );
  for (const { head, storedMs } of events) {
    if (head.kind === "destroyed") rows.clear();
    const { put = [], del = [] } = head.schedules ?? {};
    const isCancel = head.turns.some(({ cause }) => orderOf(cause.body)?.do === "cancel");
    for (const gone of del) {
      const row = rows.get(gone);
      rows.delete(gone);
      if (row === undefined || !isCancel || storedMs < run.cancelledMs) continue;
      const lateMs = storedMs - Math.max(row.time * 1000, run.calmFromMs);
      if (row.type !== "cron" && lateMs > LATE_MS_MAX && !ran.has(row.id))
        wrong.push(
          `${id.name}: the ${row.type} ${row.id} was due ${lateMs} ms ago and did not run`,
        );
    }
    for (const row of put as ReadonlyArray<Row>) rows.set(row.id, row);
  }
  return wrong;
}

const idOfRun = ({ key }: Run): string => readKey(key)[0];

/** I6: a run that began after its cancel was stored leaves no trace in the journal. */
export function checkCancelledStaysCancelled(run: RunHistory): Violations {
  const wrong: string[] = [];
  for (const { id, events } of ledgers(run)) {
    const cancelled = new Map<string, number>();
    for (const { seq, head, storedMs } of events) {
      for (const { cause, done = [], dead } of head.turns) {
        const key = cause.id ?? "";
        if (cause.kind !== "schedule" || done.length === 0 || dead === true) continue;
        const [schedule] = readKey(key);
        const cancelledMs = cancelled.get(schedule);
        if (cancelledMs === undefined) continue;
        const began = run.observed.runs.filter(
          ({ agent, key: of, host }) => agent === id.name && of === key && host === head.host,
        );
        if (began.length > 0 && began.every(({ atMs }) => atMs > cancelledMs))
          wrong.push(`${id.name} event ${seq}: ${key} began after its cancel was stored`);
      }
      const isCancel = head.turns.some(({ cause }) => orderOf(cause.body)?.do === "cancel");
      if (isCancel) for (const gone of head.schedules?.del ?? []) cancelled.set(gone, storedMs);
    }
  }
  return wrong;
}
