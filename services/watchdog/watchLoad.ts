/**
 * Watches the load of a module: says which source line blocks the thread, if code at its top level
 * does so for long, and which one ends the process. No timer of the main thread runs while it is
 * blocked, so a thread says it (`loadThread`). Agents do not run yet; `startWatchdog` watches them.
 */
import { url as debuggerUrl } from "node:inspector";
import { Worker } from "node:worker_threads";
import { withoutLoadMark } from "../node/loadMark.ts";
import { hasAuthorFrames, withoutRuntimeFrames } from "../node/withoutRuntimeFrames.ts";
import { writeStderr } from "../node/writeStderr.ts";
import { ownFile } from "../ownPackage/ownFile.ts";
import { Board } from "./Board.ts";
import { answerWhatRuns } from "./pausedCode.ts";
import { sourceLine } from "./sourceLine.ts";
import { watchExits } from "./watchExits.ts";

/** As often as the thread looks. */
const BEAT_MS = 50;
/** No memory is judged here. */
const NO_MEMORY = { heapMb: 0, rssMb: 0 };

/** What the thread starts with. */
export interface LoadData {
  readonly memory: SharedArrayBuffer;
  /** Milliseconds for which a module may hold the thread before its line is written. */
  readonly heldMsMax: number;
  /** The module, as people know it. */
  readonly file: string;
}

/** Call the returned function when the module is loaded. */
export function watchLoad(file: string, heldMsMax: number): () => void {
  const board = new Board();
  const beat = (): void => board.beat(debuggerUrl() !== undefined, NO_MEMORY);
  beat();
  const beats = setInterval(beat, BEAT_MS);
  beats.unref();
  answerWhatRuns((url, line, column) => ({
    turn: undefined,
    run: undefined,
    where: sourceLine(url, line, column),
  }));
  const thread = new Worker(ownFile("services/watchdog/loadThread"), {
    workerData: { memory: board.memory, heldMsMax, file } satisfies LoadData,
    // As that of the watchdog.
    execArgv: [],
  });
  thread.unref();
  const unwatch = watchExits((how, stack) => {
    if (!hasAuthorFrames(stack)) return;
    writeStderr(
      `${file} ended its process by ${how} while loading:\n${withoutLoadMark(withoutRuntimeFrames(stack))}\n`,
    );
  });
  return () => {
    unwatch();
    clearInterval(beats);
    void thread.terminate();
  };
}
