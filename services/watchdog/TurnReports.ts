/**
 * Reports to the control process which turns run (`reports`), in a worker whose predecessor has
 * ended without a reason: if this worker ends in the same way, the control process can tell whose
 * turn it was (`services/workers/SilentEnds`). It costs two writes to a pipe for each turn, so it
 * is limited to `TURNS_REPORTED_MS`. `startWatchdog` owns it.
 */
import type { AmbientShape } from "../../core/turn/Ambient.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import type { NamedTurn } from "./Board.ts";
import { report } from "./reports.ts";

interface RunningTurn {
  readonly n: number;
  /** Entries that have not ended: hooks of one turn may run beside each other. */
  entries: number;
}

/** `nameOf`: undefined for turns of no agent. */
export function reportTurns(nameOf: (turn: Turn) => NamedTurn | undefined): AmbientShape["run"] {
  const running = new Map<Turn, RunningTurn>();
  let last = 0;
  const leave = (turn: Turn, entry: RunningTurn): void => {
    if (--entry.entries > 0) return;
    running.delete(turn);
    report({ left: entry.n });
  };
  const enter = (turn: Turn, named: NamedTurn): RunningTurn => {
    const known = running.get(turn);
    if (known !== undefined) {
      known.entries++;
      return known;
    }
    const entry = { n: ++last, entries: 1 };
    running.set(turn, entry);
    report({ entered: entry.n, turn: named });
    return entry;
  };
  return (turn, f) => {
    const named = nameOf(turn);
    if (named === undefined) return f();
    const entry = enter(turn, named);
    const over = (): void => leave(turn, entry);
    try {
      const result = f();
      if (result instanceof Promise) void result.then(over, over);
      else over();
      return result;
    } catch (error) {
      over();
      throw error;
    }
  };
}
