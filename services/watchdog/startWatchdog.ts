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
 * The log also names the agent whose code ends its process (`watchExits`).
 */
import { url as debuggerUrl } from "node:inspector";
import { constants } from "node:os";
import { getHeapStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import type { AmbientShape } from "../../core/turn/Ambient.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { callingAgent } from "../node/AsyncAmbient.ts";
import { machineTime } from "../node/MachineTime.ts";
import { logLine } from "../node/logLine.ts";
import { writeStderr } from "../node/writeStderr.ts";
import { ownFile } from "../ownPackage/ownFile.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { Board, type WatchedTurn } from "./Board.ts";
import { Endings } from "./Endings.ts";
import { residentMb } from "./judgeMemory.ts";
import { report, TURNS_REPORTED_MS } from "./reports.ts";
import { RuntimeChecks } from "./RuntimeChecks.ts";
import { sourceLine } from "./sourceLine.ts";
import { reportTurns } from "./TurnReports.ts";
import {
  WHAT_RUNS,
  type PausedCode,
  type Stall,
  type WatchdogData,
  type WatchdogLog,
} from "./pausedCode.ts";

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

export function startWatchdog(
  ambient: AmbientShape,
  {
    cpuSeconds,
    log,
    endings: folder,
    reports,
    reportsTurns,
    rssBytesMax,
    onStall,
  }: WatchdogOptions,
): Watchdog {
  const board = new Board();
  const cpuMs = cpuSeconds * 1000;
  const limitOf = ({ options }: ActiveAgent): number =>
    options.cpuSeconds === undefined ? cpuMs : options.cpuSeconds * 1000;
  const nameTurn = (turn: Turn): WatchedTurn | undefined => {
    const { owner, cause } = turn;
    if (!(owner instanceof ActiveAgent)) return undefined;
    return {
      class: owner.id.class,
      name: owner.id.name,
      turn: cause.kind,
      ...(cause.id !== undefined && { key: cause.id }),
      attempt: cause.attempt ?? 1,
      limitMs: limitOf(owner),
    };
  };
  const runs = new WeakMap<Turn, number>();
  let runsCount = 0;
  const runOf = (turn: Turn): number => {
    if (!runs.has(turn)) runs.set(turn, ++runsCount);
    return runs.get(turn)!;
  };
  const whatRuns = (url: string, line: number, column: number): PausedCode => {
    const turn = ambient.current();
    return {
      turn: turn === undefined ? undefined : nameTurn(turn),
      run: turn === undefined ? undefined : runOf(turn),
      where: sourceLine(url, line, column),
    };
  };
  Object.defineProperty(globalThis, WHAT_RUNS, { value: whatRuns, configurable: true });
  // Keeps code from giving every object of the process a field. What is there can be replaced.
  Object.preventExtensions(Object.prototype);
  const checks = new RuntimeChecks();
  let entered: Turn | undefined;
  const replacedBy: Array<Turn | undefined> = [];
  const noteReplaced = (part: number): void => void (replacedBy[part] = entered);
  const enter = (turn: Turn): void => {
    entered = turn;
    if (turn.owner instanceof ActiveAgent)
      board.enter(turn.owner.id, turn.cause, limitOf(turn.owner));
  };
  const checkRuntime = (): void => {
    checks.look(noteReplaced);
    const broken = checks.check();
    if (broken === undefined || board.broken !== undefined) return;
    const turn = replacedBy[broken];
    if (turn !== undefined) enter(turn);
    board.breaks(broken);
  };
  const beats = setInterval(() => {
    checkRuntime();
    board.beat(debuggerUrl() !== undefined, {
      heapMb: getHeapStatistics().used_heap_size / MB,
      rssMb: residentMb() ?? board.atBeat.rssMb,
    });
  }, BEAT_MS);
  beats.unref();
  const thread = new Worker(threadFile(), {
    workerData: {
      memory: board.memory,
      cpuMs,
      log,
      endings: folder,
      reports,
      heapLimitMb: getHeapStatistics().heap_size_limit / MB,
      semiSpaceMb: givenSemiSpaceMb(),
      rssMaxMb: rssBytesMax / MB,
    } satisfies WatchdogData,
    // Node's own options are those of the main thread; the module's loader is not needed.
    execArgv: [],
  });
  thread.on("message", onStall);
  thread.unref();
  const endings = new Endings(folder);
  endings.forgetOld(machineTime.nowMs());
  const unwatch = watchExits((how) => {
    const turn = ambient.current();
    const named = turn === undefined ? undefined : nameTurn(turn);
    if (named === undefined || callingAgent() === undefined) return;
    const { limitMs: _limitMs, ...fields } = named;
    const message = `an agent's code ended its process by ${how}`;
    endings.note(fields, message);
    if (reports) report({ ending: { reason: message, turn: fields, exactly: true } });
    const entry = { level: "error", message, timeMs: machineTime.nowMs() } as const;
    const all = { ...log.fields, ...fields, stack: stackOf() };
    writeStderr(logLine(log.format, { ...entry, fields: all }));
  });
  let reported = reportsTurns ? reportTurns(nameTurn) : undefined;
  const endReports = setTimeout(() => (reported = undefined), TURNS_REPORTED_MS);
  endReports.unref();
  return {
    ambient: {
      current: ambient.current,
      run: (turn, f) => {
        // Most turns enter more than once, for their hooks and what they defer.
        if (turn !== entered && turn.owner instanceof ActiveAgent && board.broken === undefined) {
          checks.look(noteReplaced);
          enter(turn);
        }
        if (reported === undefined) return ambient.run(turn, f);
        return reported(turn, () => ambient.run(turn, f));
      },
    },
    stop: async () => {
      clearInterval(beats);
      clearTimeout(endReports);
      unwatch();
      await thread.terminate();
    },
  };
}

/** Signals that end a process, or freeze it until it is ended for that, by name and by number. */
const FATAL: ReadonlySet<unknown> = new Set(
  (["SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGABRT", "SIGSEGV"] as const)
    .map((name) => [name, constants.signals[name]]).flat(),
); // prettier-ignore

/** Calls `onEnd` before the code of this process ends it. */
function watchExits(onEnd: (how: string) => void): () => void {
  // `process.exit()` calls `reallyExit` by its name, in every release of Node.
  const ends = process as NodeJS.Process & { reallyExit: NodeJS.Process["exit"] };
  const { reallyExit, abort, kill, disconnect, emit } = ends;
  ends.reallyExit = (code) => {
    onEnd("process.exit()");
    return reallyExit.call(process, code);
  };
  ends.abort = () => {
    onEnd("process.abort()");
    return abort.call(process);
  };
  ends.kill = (pid, signal = "SIGTERM") => {
    if (pid === process.pid && FATAL.has(signal)) onEnd(`process.kill() with ${signal}`);
    return kill.call(process, pid, signal);
  };
  // A worker stops without its channel. Where there is none, the function is missing.
  if (disconnect !== undefined)
    ends.disconnect = () => {
      onEnd("process.disconnect()");
      disconnect.call(process);
    };
  // Real signals arrive here, too, in no turn.
  const emitNamed = (event: string | symbol, ...args: unknown[]): unknown => {
    if (FATAL.has(event)) onEnd(`process.emit("${String(event)}")`);
    return Reflect.apply(emit, process, [event, ...args]);
  };
  Object.assign(ends, { emit: emitNamed });
  return () => void Object.assign(process, { reallyExit, abort, kill, disconnect, emit });
}

const stackOf = (): string => (new Error().stack ?? "").split("\n").slice(4).join("\n");

function givenSemiSpaceMb(): number | undefined {
  const options = [...process.execArgv, process.env["NODE_OPTIONS"] ?? ""].join(" ");
  const given = /--max[-_]semi[-_]space[-_]size[= ](\d+)/.exec(options)?.[1];
  return given === undefined ? undefined : Number(given);
}

/** Tests and benches run the sources as they are. */
const threadFile = (): URL => ownFile("services/watchdog/watchdogThread");
