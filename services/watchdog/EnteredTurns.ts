/**
 * The turn that entered the main thread last, which the `Board` shows to the watchdog's thread, and
 * the turns that replaced parts of the runtime (`RuntimeChecks`). `startWatchdog` makes it.
 */
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { AgentsInMemory } from "./AgentsInMemory.ts";
import type { Board } from "./Board.ts";
import { RuntimeChecks } from "./RuntimeChecks.ts";
import type { WatchedTurns } from "./WatchedTurns.ts";

export class EnteredTurns {
  private readonly checks = new RuntimeChecks();
  private readonly agents = new AgentsInMemory();
  private last: Turn | undefined;
  /** By the number of the part. */
  private readonly replacedBy: Array<Turn | undefined> = [];

  constructor(
    private readonly board: Board,
    private readonly turns: WatchedTurns,
  ) {}

  /** Called at each entry: most turns enter more than once, for their hooks and what they defer. */
  enter(turn: Turn): void {
    if (turn === this.last || !(turn.owner instanceof ActiveAgent)) return;
    this.agents.add(turn.owner);
    if (this.board.broken !== undefined) return;
    this.checks.look(this.noteReplaced);
    this.show(turn);
  }

  /** Called at each beat. The turn that broke a part is shown as the last one. */
  checkRuntime(): void {
    this.checks.look(this.noteReplaced);
    const broken = this.checks.check();
    if (broken === undefined || this.board.broken !== undefined) return;
    const turn = this.replacedBy[broken];
    if (turn !== undefined) this.show(turn);
    this.board.breaks(broken);
  }

  private show(turn: Turn): void {
    this.last = turn;
    if (turn.owner instanceof ActiveAgent)
      this.board.enter(turn.owner.id, turn.cause, this.turns.limitOf(turn.owner));
  }

  private readonly noteReplaced = (part: number): void => {
    this.replacedBy[part] = this.last;
  };
}
