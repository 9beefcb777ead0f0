/**
 * Finds the agent that has ended a worker without a reason: by a crash of native code, or because
 * the system ended the largest process for its memory. Nothing in such a process can say whose turn
 * it was. `WorkerStarts` owns it.
 *
 * 1. After the first such end the workers report which turns run (`TurnReports`), so the second one
 *    has suspects: the agents whose turns ran at the end, or the last one that ran.
 * 2. Of several, the one that was a suspect of the most ends is named, and of those the one whose
 *    turn began last. Its turn need not be the cause: `exactly` is false.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import type { NamedTurn } from "../watchdog/Board.ts";
import { TURNS_REPORTED_MS, type Ending, type WatchdogReport } from "../watchdog/reports.ts";
import { nameOf } from "./messages.ts";
import { describeEnd, type WorkerEnd, type WorkerProcess } from "./WorkerProcess.ts";

interface SilentEnd {
  readonly atMs: number;
  readonly suspects: ReadonlySet<string>;
}

/** The turns of one process. */
interface ReportedTurns {
  readonly running: Map<number, NamedTurn>;
  lastLeft: NamedTurn | undefined;
}

export class SilentEnds {
  /** Those of the last `TURNS_REPORTED_MS`. */
  private ends: ReadonlyArray<SilentEnd> = [];
  private readonly turns = new WeakMap<WorkerProcess, ReportedTurns>();

  constructor(private readonly time: Pick<TimeShape, "monotonicMs">) {}

  /** Whether a process that starts now has to report its turns. */
  get any(): boolean {
    const nowMs = this.time.monotonicMs();
    this.ends = this.ends.filter(({ atMs }) => nowMs - atMs < TURNS_REPORTED_MS);
    return this.ends.length > 0;
  }

  /** Call it for a process that reports its turns. */
  follow(process: WorkerProcess): void {
    const turns: ReportedTurns = { running: new Map(), lastLeft: undefined };
    this.turns.set(process, turns);
    const stopsAtMs = this.time.monotonicMs() + TURNS_REPORTED_MS;
    process.onReport((report) => {
      note(turns, report);
      if (this.time.monotonicMs() >= stopsAtMs) this.turns.delete(process);
    });
  }

  /** A process has ended without a reason. Undefined: no agent can be named. */
  ended(process: WorkerProcess, end: WorkerEnd): Ending | undefined {
    const { running, lastLeft } = this.turns.get(process) ?? NONE;
    const found = running.size > 0 ? [...running.values()] : lastLeft === undefined ? [] : [lastLeft]; // prettier-ignore
    const isKnown = this.any;
    const times = (turn: NamedTurn): number =>
      this.ends.filter(({ suspects }) => suspects.has(nameOf(turn))).length;
    // A sort keeps the order of equals.
    const turn = isKnown ? found.toSorted((a, b) => times(a) - times(b)).at(-1) : undefined;
    const suspects = new Set(found.map(nameOf));
    this.ends = [...this.ends, { atMs: this.time.monotonicMs(), suspects }];
    if (turn === undefined) return undefined;
    const reason = `its process ended (${describeEnd(end)}) while its turn ran, as one before had`;
    return { reason, turn, exactly: false };
  }
}

const NONE: ReportedTurns = { running: new Map(), lastLeft: undefined };

function note(turns: ReportedTurns, report: WatchdogReport): void {
  if ("entered" in report) turns.running.set(report.entered, report.turn);
  if (!("left" in report)) return;
  turns.lastLeft = turns.running.get(report.left);
  turns.running.delete(report.left);
}
