/**
 * The questions of the watchdog's thread to the main thread about code that the debugger has paused
 * and about memory, the answers, and its notifications. `startWatchdog` answers.
 */
import type { WatchedTurn } from "./Board.ts";

/** The name of the answering function on `globalThis`. */
export const WHAT_RUNS = "turnkeep.whatRuns";

/** The name on `globalThis` of the function that `AgentsInMemory` provides. */
export const WHO_HOLDS = "turnkeep.whoHolds";

/** An agent, and the megabytes that its object holds. */
export interface Holder {
  readonly class: string;
  readonly name: string;
  readonly mb: number;
}

export interface PausedCode {
  readonly turn: WatchedTurn | undefined;
  /** A number of the turn in its process. Undefined for code of no turn. */
  readonly run: number | undefined;
  /** `src/agents.ts:12:5`, in the author's source where a source map is known. */
  readonly where: string;
}

/** `answer` receives the position of the paused code. Replaces the function before. */
export function answerWhatRuns(
  answer: (url: string, line: number, column: number) => PausedCode,
): void {
  Object.defineProperty(globalThis, WHAT_RUNS, { value: answer, configurable: true });
}

/**
 * A hold of the main thread that is over, of `STALL_MS` or more. The main thread counts them by
 * agent; the control process isolates an agent that holds the thread most of the time.
 */
export interface Stall {
  readonly className: string;
  readonly name: string;
  readonly ms: number;
  /** Since the process began, its main thread has waited so long for a processor (`HoldMeter`). */
  readonly waitedMs: number;
  /** False: the turn that entered the thread last, which need not be the one that held it. */
  readonly exactly: boolean;
}

/** How the thread writes its lines: the main thread, which writes for its threads, is held. */
export interface WatchdogLog {
  readonly format: "json" | "text";
  /** Added to each line. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** What the thread starts with. */
export interface WatchdogData {
  readonly memory: SharedArrayBuffer;
  /** Milliseconds that a turn may hold the thread where its class does not say; 0: no limit. */
  readonly cpuMs: number;
  readonly log: WatchdogLog;
  /** Where `Endings` are kept. */
  readonly endings: string;
  readonly reports: boolean;
  /** Of the main thread, as V8 reports it: both generations. */
  readonly heapLimitMb: number;
  /** As the process was told (`--max-semi-space-size`). Undefined: V8's default. */
  readonly semiSpaceMb: number | undefined;
  readonly rssMaxMb: number;
}
