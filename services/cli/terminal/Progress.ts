/** Tells a person at a terminal how far a long command has come: a line now and then. */
import type { TimeShape } from "../../../core/time/Time.ts";
import type { Terminal } from "./Terminal.ts";

/** Often enough to see that it works, and seldom enough to read on. */
const EVERY_MS = 2_000;

export class Progress {
  private readonly terminal: Pick<Terminal, "err" | "interactive">;
  private readonly time: Pick<TimeShape, "monotonicMs">;
  private toldMs: number;

  constructor(
    terminal: Pick<Terminal, "err" | "interactive">,
    time: Pick<TimeShape, "monotonicMs">,
  ) {
    this.terminal = terminal;
    this.time = time;
    this.toldMs = time.monotonicMs();
  }

  /** `done` of `total`, of any unit. Nothing where nobody watches. */
  tell(what: string, done: number, total: number): void {
    if (!this.terminal.interactive) return;
    const nowMs = this.time.monotonicMs();
    if (nowMs - this.toldMs < EVERY_MS) return;
    this.toldMs = nowMs;
    this.terminal.err(`${what}: ${Math.floor((100 * done) / Math.max(total, 1))} %`);
  }
}
