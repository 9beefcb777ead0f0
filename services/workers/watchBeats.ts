/**
 * Finds processes that are frozen: their watchdog has reported that it runs, and reports nothing
 * any more. Nothing in such a process can end it. The control process watches its workers
 * (`serveLeases`) and the processes of isolated agents (`IsolationWard`).
 */
import { interval } from "../../core/time/interval.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { REPORT_BEAT_MS, type Ending } from "../watchdog/reports.ts";
import type { WorkerProcess } from "./WorkerProcess.ts";

/**
 * Looks of this process, one each `REPORT_BEAT_MS`. They are counted, not time: a machine that was
 * frozen has frozen this process, too. No machine is so busy that a watchdog is silent for so long,
 * and whoever has stopped a process for a look has had a minute.
 */
const BEATLESS_LOOKS_MAX = 120;

/** Why such a process is ended. */
export const FROZEN: Ending = {
  reason:
    "its watchdog has reported nothing for a minute; the process is frozen, or its code has closed the pipe of the reports",
  turn: undefined,
  exactly: false,
};

/**
 * `onFrozen` is called once; never for a process without a watchdog, which a gateway is.
 * `isWatched`: false while silence is expected.
 */
export function watchBeats(
  time: Pick<TimeShape, "after">,
  process: Pick<WorkerProcess, "onReport" | "ended">,
  onFrozen: () => void,
  isWatched: () => boolean = () => true,
): void {
  let looks: number | undefined;
  const cancel = interval(time, REPORT_BEAT_MS, () => {
    if (looks === undefined) return;
    looks = isWatched() ? looks + 1 : 0;
    if (looks === BEATLESS_LOOKS_MAX) onFrozen();
  });
  process.onReport((report) => {
    if ("beat" in report) looks = 0;
  });
  void process.ended.then(cancel);
}
