/**
 * What the watchdog of a worker reports to the control process: lines of JSON in a pipe, which the
 * watchdog's thread writes itself, because the main thread may be held. `forkWorker` reads them.
 *
 * - A beat, twice a second: the process runs. `held`: its main thread does not.
 * - Each hold of the main thread that is over (`Stall`).
 * - Why the process is about to end, just before it does.
 * - Which turns run, after an end without a reason (`TurnReports`).
 */
import { writeSync } from "node:fs";
import type { NamedTurn } from "./Board.ts";
import type { Stall } from "./pausedCode.ts";

/** The file descriptor of the pipe in the worker: after the standard three and the channel. */
const REPORTS_FD = 4;

/** Twice a second is often enough to tell a held process from a frozen one within a lease's TTL. */
export const REPORT_BEAT_MS = 500;

/**
 * For so long after an end without a reason, workers report their turns. An agent that ends a
 * process only now and then harms its neighbours little.
 */
export const TURNS_REPORTED_MS = 600_000;

/** Why a process ends, and whose turn it was. */
export interface Ending {
  /** A sentence without a full stop, with the source line where it is known. */
  readonly reason: string;
  /** Undefined: code of no turn. */
  readonly turn: NamedTurn | undefined;
  /** False: the turn that entered the thread last, which need not be the one that held it. */
  readonly exactly: boolean;
}

export type WatchdogReport =
  | { readonly beat: true; readonly held: boolean }
  | { readonly stall: Stall }
  | { readonly ending: Ending }
  /** A turn runs. `entered`: its number in this process. */
  | { readonly entered: number; readonly turn: NamedTurn }
  /** The turn with this number runs no longer. */
  | { readonly left: number };

/** Never throws: without a control process there is no receiver. */
export function report(what: WatchdogReport): void {
  try {
    writeSync(REPORTS_FD, JSON.stringify(what) + "\n");
  } catch {
    // The control process has ended, or its pipe is full: it does not read.
  }
}

/** Reads whole lines from chunks of the pipe. */
export function reportReader(onReport: (report: WatchdogReport) => void): (chunk: string) => void {
  let rest = "";
  return (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const found = readReport(line);
      if (found !== undefined) onReport(found);
    }
  };
}

/** Undefined for anything else: agents' code can write to the pipe, too. */
function readReport(line: string): WatchdogReport | undefined {
  try {
    const { beat, held, stall, ending, entered, left, ...of } = JSON.parse(line) as {
      readonly beat?: unknown;
      readonly held?: unknown;
      readonly entered?: unknown;
      readonly left?: unknown;
      readonly turn?: Partial<NamedTurn>;
      readonly stall?: Partial<Stall>;
      readonly ending?: Partial<Ending>;
    };
    if (beat === true) return { beat, held: held === true };
    if (isStall(stall)) return { stall };
    if (typeof entered === "number" && isTurn(of.turn)) return { entered, turn: of.turn };
    if (typeof left === "number") return { left };
    if (typeof ending?.reason !== "string") return undefined;
    const { reason, turn, exactly } = ending;
    return { ending: { reason, turn: isTurn(turn) ? turn : undefined, exactly: exactly === true } };
  } catch {
    return undefined;
  }
}

const isTurn = (turn: Partial<NamedTurn> | null | undefined): turn is NamedTurn =>
  typeof turn?.class === "string" &&
  typeof turn.name === "string" &&
  typeof turn.turn === "string" &&
  typeof turn.attempt === "number";

const isStall = (stall: Partial<Stall> | undefined): stall is Stall =>
  typeof stall?.className === "string" &&
  typeof stall.name === "string" &&
  typeof stall.ms === "number" &&
  typeof stall.waitedMs === "number" &&
  typeof stall.exactly === "boolean";
