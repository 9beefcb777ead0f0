/**
 * Shows the progress of a long command apart from its results: as a bar at the bottom of a
 * terminal, or as a line from time to time if the output goes to a file or a log. Shows nothing for
 * a short command.
 */
import type { TimeShape } from "../../../core/time/Time.ts";
import type { Terminal } from "./Terminal.ts";

/** Often enough that the bar seems to move, and seldom enough to cost almost nothing. */
const BAR_EVERY_MS = 200;
/** Seldom enough that the log of a whole night stays short. */
const LINE_EVERY_MS = 30_000;
/** With its text, the bar fits into a narrow terminal. */
const BAR_CHARS = 24;
const MS_PER_SECOND = 1_000;
const S_PER_MINUTE = 60;

export class Progress {
  private readonly startMs: number;
  private toldMs: number;
  private first = 0;

  constructor(
    private readonly terminal: Pick<Terminal, "err" | "status">,
    private readonly time: Pick<TimeShape, "monotonicMs">,

    /** What is counted: `events saved`. */
    private readonly what: string,
  ) {
    this.startMs = time.monotonicMs();
    this.toldMs = this.startMs;
  }

  /** Sets what an earlier run has done. It is not used to estimate the remaining time. */
  from(done: number): void {
    this.first = done;
  }

  tell(done: number, total: number): void {
    const nowMs = this.time.monotonicMs();
    const { status, err } = this.terminal;
    if (nowMs - this.toldMs < (status === undefined ? LINE_EVERY_MS : BAR_EVERY_MS)) return;
    this.toldMs = nowMs;
    const share = total === 0 ? 1 : Math.min(1, done / total);
    const numbers = `${Math.floor(100 * share)} %  ${done} of ${total}${this.left(done, total, nowMs)}`;
    if (status === undefined) return err(`${this.what}: ${numbers}`);
    const full = Math.round(BAR_CHARS * share);
    status(`${this.what} [${"#".repeat(full)}${"-".repeat(BAR_CHARS - full)}] ${numbers}`);
  }

  /** Removes the bar. */
  end(): void {
    this.terminal.status?.(undefined);
  }

  private left(done: number, total: number, nowMs: number): string {
    const now = done - this.first;
    if (now <= 0 || done >= total) return "";
    const seconds = ((nowMs - this.startMs) / now) * ((total - done) / MS_PER_SECOND);
    return seconds < S_PER_MINUTE
      ? `  ${Math.ceil(seconds)} s left`
      : `  ${Math.ceil(seconds / S_PER_MINUTE)} min left`;
  }
}
