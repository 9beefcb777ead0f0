/**
 * The names of turns for the watchdog: whose a turn is, how long it may hold the thread, and which
 * one runs where the debugger has paused the main thread. `startWatchdog` makes it.
 */
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AmbientShape } from "../../core/turn/Ambient.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { keyOf, type WatchedTurn } from "./Board.ts";
import type { PausedCode } from "./pausedCode.ts";
import { sourceLine } from "./sourceLine.ts";

export class WatchedTurns {
  private readonly runs = new WeakMap<Turn, number>();
  private runsCount = 0;

  /** `cpuMs`: as `WatchdogData.cpuMs`. */
  constructor(
    private readonly ambient: Pick<AmbientShape, "current">,
    private readonly cpuMs: number,
  ) {}

  /** Milliseconds that a turn of the agent may hold the thread; 0: no limit. */
  limitOf({ options }: ActiveAgent): number {
    return options.cpuSeconds === undefined ? this.cpuMs : options.cpuSeconds * 1000;
  }

  /** Undefined for turns of no agent. */
  nameOf({ owner, cause }: Turn): WatchedTurn | undefined {
    if (!(owner instanceof ActiveAgent)) return undefined;
    const key = keyOf(cause);
    return {
      class: owner.id.class,
      name: owner.id.name,
      turn: cause.kind,
      ...(key !== undefined && { key }),
      attempt: cause.attempt ?? 1,
      limitMs: this.limitOf(owner),
    };
  }

  /** The turn whose code calls this. */
  current(): WatchedTurn | undefined {
    const turn = this.ambient.current();
    return turn && this.nameOf(turn);
  }

  whatRuns(url: string, line: number, column: number): PausedCode {
    const turn = this.ambient.current();
    return {
      turn: turn && this.nameOf(turn),
      run: turn && this.runOf(turn),
      where: sourceLine(url, line, column),
    };
  }

  private runOf(turn: Turn): number {
    if (!this.runs.has(turn)) this.runs.set(turn, ++this.runsCount);
    return this.runs.get(turn)!;
  }
}
