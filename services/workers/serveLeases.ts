/**
 * Serves leases to the workers of a control process over their channels. The connection to the
 * broker is opened by the first request: the installation exists then, since the worker has opened
 * it. `serveWorkers` owns it.
 */
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { once } from "../../core/retry/once.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { REPORT_BEAT_MS } from "../watchdog/reports.ts";
import { LeaseKeeper, notDone } from "./LeaseKeeper.ts";
import { inBatches } from "./inBatches.ts";
import { readLeaseRequests, type LeaseAnswer } from "./messages.ts";
import { FROZEN, watchBeats } from "./watchBeats.ts";
import type { WorkerProcess } from "./WorkerProcess.ts";

/**
 * Silence while the thread is free, unless the TTL is longer. Workers ask at a third of the TTL,
 * every second or two by default, unless code has replaced what they run on, such as `setTimeout`.
 */
const SILENT_MS_MIN = 15_000;
/** Beats of a watchdog after which its process is frozen, or its machine is too busy for it. */
const BEATS_MISSED_MAX = 3;
const SILENT =
  "it renews no lease although its thread is free; its code may have replaced a global that the process needs";

export interface OpenLeases {
  readonly leases: LeasesShape;
  readonly close: () => Promise<void>;
}

export interface ServedLeases {
  /** Serves a worker until it ends. `isReplaced` says then whether another one follows. */
  readonly serve: (worker: number, process: WorkerProcess, isReplaced: () => boolean) => void;
  /** Call it when no worker is left. */
  readonly close: () => Promise<void>;
}

export function serveLeases(
  { time, log }: { readonly time: TimeShape; readonly log: LogShape },
  open: () => Promise<OpenLeases>,
): ServedLeases {
  const opened = once(async () => {
    const { leases, close } = await open();
    const silentBeatsMax = Math.ceil(Math.max(SILENT_MS_MIN, leases.ttlMs) / REPORT_BEAT_MS);
    return { keeper: new LeaseKeeper({ leases, time, log }), close, silentBeatsMax };
  });
  return {
    serve: (number, process, isReplaced) => {
      const beats = new WorkerBeats(time);
      let silentBeatsMax = Infinity;
      const joined = once(async () => {
        const served = await opened.get();
        silentBeatsMax = served.silentBeatsMax;
        return served.keeper.join(number, {
          lives: () => beats.isRecent,
          onChange: (leaseChange) => process.send({ leaseChange }),
        });
      });
      const end = (why: string): void => {
        log.error(`a worker is ended: ${why}`, { worker: number });
        process.kill();
      };
      watchBeats(time, process, () => end(FROZEN.reason), isReplaced);
      process.onReport((report) => {
        if (!("beat" in report)) return;
        const needNotAsk = report.held || joined.made === undefined || !isReplaced();
        if (beats.noteBeat(needNotAsk) === silentBeatsMax) end(SILENT);
      });
      const answer = inBatches<LeaseAnswer>((leaseAnswers) => process.send({ leaseAnswers }));
      process.onMessage((message) => {
        for (const request of readLeaseRequests(message)) {
          beats.noteRequest();
          void joined
            .get()
            .then(
              (customer) => customer.ask(request),
              (error: unknown) => notDone(request, error),
            )
            .then((given) => {
              beats.noteAnswer();
              answer(given);
            });
        }
      });
      void process.ended.then(() =>
        joined.made?.then(
          (customer) => customer.ended(isReplaced()),
          () => undefined,
        ),
      );
    },
    close: async () => {
      const { keeper, close } = (await opened.made?.catch(() => undefined)) ?? {};
      await keeper?.close();
      await close?.();
    },
  };
}

/** When a worker's watchdog reported last, and for how many beats the worker asked nothing. */
class WorkerBeats {
  private beatMs: number;
  private silentBeats = 0;
  private unanswered = 0;

  constructor(private readonly time: Pick<TimeShape, "monotonicMs">) {
    this.beatMs = time.monotonicMs();
  }

  get isRecent(): boolean {
    return this.time.monotonicMs() - this.beatMs < REPORT_BEAT_MS * BEATS_MISSED_MAX;
  }

  /**
   * Returns how many beats were silent since the last request, or 0 for a beat that does not count.
   * `needNotAsk`: the worker has a reason for its silence.
   */
  noteBeat(needNotAsk: boolean): number {
    const passedMs = this.time.monotonicMs() - this.beatMs;
    this.beatMs += passedMs;
    // If this process was frozen, they come all at once, and requests may come after them.
    if (passedMs < REPORT_BEAT_MS / 2) return 0;
    this.silentBeats = needNotAsk || this.unanswered > 0 ? 0 : this.silentBeats + 1;
    return this.silentBeats;
  }

  noteRequest(): void {
    this.silentBeats = 0;
    this.unanswered++;
  }

  noteAnswer(): void {
    this.unanswered--;
  }
}
