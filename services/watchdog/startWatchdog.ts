/**
 * Starts the watchdog of a process that runs agents: a thread that ends the process when a turn
 * holds its main thread for too long or its memory is nearly full, and logs whose turn it was and
 * which line ran (`watchdogThread`). Nothing else can end a loop in an agent's code: a thread that
 * spins runs no timer and reads no signal.
 *
 * The supervisor starts the process again (`--workers`, systemd, Kubernetes), or another host takes
 * over when the leases have expired. What the agents had stored is not affected, and the input that
 * held the thread counts as one that may have ended its host (`core/input/Suspects`).
 *
 * The log also names the code that ends its process, and its agent (`watchExits`).
 */
import { url as debuggerUrl } from "node:inspector";
import { getHeapStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import type { AmbientShape } from "../../core/turn/Ambient.ts";
import { callingAgent } from "../node/AsyncAmbient.ts";
import { machineTime } from "../node/MachineTime.ts";
import { logLine } from "../node/logLine.ts";
import { hasAuthorFrames } from "../node/withoutRuntimeFrames.ts";
import { writeStderr } from "../node/writeStderr.ts";
import { ownFile } from "../ownPackage/ownFile.ts";
import { Board, type NamedTurn, type WatchedTurn } from "./Board.ts";
import { Endings } from "./Endings.ts";
import { EnteredTurns } from "./EnteredTurns.ts";
import { residentMb } from "./judgeMemory.ts";
import { report, TURNS_REPORTED_MS } from "./reports.ts";
import { reportTurns } from "./TurnReports.ts";
import { answerWhatRuns, type Stall, type WatchdogData, type WatchdogLog } from "./pausedCode.ts";
import { watchExits } from "./watchExits.ts";
import { WatchedTurns } from "./WatchedTurns.ts";

export interface WatchdogOptions {
  /** Seconds that a turn may hold the thread where its class does not say; 0: no limit. */
  readonly cpuSeconds: number;
  readonly log: WatchdogLog;
  /** The folder of `Endings`, which the workers of this machine share. */
  readonly endings: string;
  /** The process may have this much memory, whatever holds it. */
  readonly rssBytesMax: number;
  /** A control process reads the reports (`reports`). */
  readonly reports: boolean;
  /** The process takes the place of one that has ended without a reason. */
  readonly reportsTurns: boolean;
  readonly onStall: (stall: Stall) => void;
}

/** A quarter of the least hold that is logged. */
const BEAT_MS = 50;
/** Bytes. */
const MB = 1024 * 1024;

/** An ambient context that also tells the watchdog which turns enter the thread. */
interface Watchdog {
  readonly ambient: AmbientShape;
  readonly stop: () => Promise<void>;
}

export function startWatchdog(ambient: AmbientShape, options: WatchdogOptions): Watchdog {
  const { log, reports, reportsTurns } = options;
  const board = new Board();
  const cpuMs = options.cpuSeconds * 1000;
  const turns = new WatchedTurns(ambient, cpuMs);
  const entered = new EnteredTurns(board, turns);
  answerWhatRuns((url, line, column) => turns.whatRuns(url, line, column));
  // Keeps code from giving every object of the process a field. What is there can be replaced.
  Object.preventExtensions(Object.prototype);
  const stopBeats = beatOn(board, () => entered.checkRuntime());
  const thread = startThread({
    memory: board.memory,
    cpuMs,
    log,
    endings: options.endings,
    reports,
    heapLimitMb: getHeapStatistics().heap_size_limit / MB,
    semiSpaceMb: givenSemiSpaceMb(),
    rssMaxMb: options.rssBytesMax / MB,
  });
  thread.on("message", options.onStall);
  const unwatch = reportExits(turns, options);
  let reported = reportsTurns ? reportTurns((turn) => turns.nameOf(turn)) : undefined;
  const endReports = setTimeout(() => (reported = undefined), TURNS_REPORTED_MS);
  endReports.unref();
  return {
    ambient: {
      current: ambient.current,
      run: (turn, f) => {
        entered.enter(turn);
        if (reported === undefined) return ambient.run(turn, f);
        return reported(turn, () => ambient.run(turn, f));
      },
    },
    stop: async () => {
      stopBeats();
      clearTimeout(endReports);
      unwatch();
      await thread.terminate();
    },
  };
}

/** Logs and notes whose code ends this process, unless it is the process's own. */
function reportExits(
  turns: WatchedTurns,
  { log, endings: folder, reports }: Pick<WatchdogOptions, "log" | "endings" | "reports">,
): () => void {
  const endings = new Endings(folder);
  endings.forgetOld(machineTime.nowMs());
  return watchExits((how, stack) => {
    const turn = callingAgent() === undefined ? undefined : withoutLimit(turns.current());
    if (turn === undefined && !hasAuthorFrames(stack)) return;
    const whose = turn === undefined ? "code outside of any turn" : "an agent's code";
    const message = `${whose} ended its process by ${how}`;
    if (turn !== undefined) endings.note(turn, message);
    // In no turn, too: an agent is suspected of an end without a reason (`SilentEnds`).
    if (reports) report({ ending: { reason: message, turn, exactly: true } });
    const entry = { level: "error", message, timeMs: machineTime.nowMs() } as const;
    writeStderr(logLine(log.format, { ...entry, fields: { ...log.fields, ...turn, stack } }));
  });
}

function withoutLimit(turn: WatchedTurn | undefined): NamedTurn | undefined {
  if (turn === undefined) return undefined;
  const { limitMs: _limitMs, ...named } = turn;
  return named;
}

/** Calls `check` before each beat. The returned function ends the beats. */
function beatOn(board: Board, check: () => void): () => void {
  const beats = setInterval(() => {
    check();
    board.beat(debuggerUrl() !== undefined, {
      heapMb: getHeapStatistics().used_heap_size / MB,
      rssMb: residentMb() ?? board.atBeat.rssMb,
    });
  }, BEAT_MS);
  beats.unref();
  return () => clearInterval(beats);
}

function startThread(workerData: WatchdogData): Worker {
  // Node's own options are those of the main thread; the module's loader is not needed.
  const thread = new Worker(ownFile("services/watchdog/watchdogThread"), { workerData, execArgv: [] }); // prettier-ignore
  thread.unref();
  return thread;
}

function givenSemiSpaceMb(): number | undefined {
  const options = [...process.execArgv, process.env["NODE_OPTIONS"] ?? ""].join(" ");
  const given = /--max[-_]semi[-_]space[-_]size[= ](\d+)/.exec(options)?.[1];
  return given === undefined ? undefined : Number(given);
}
