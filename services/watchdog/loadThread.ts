/**
 * The thread that watches the main thread while it loads a module (`watchLoad` starts it): code at
 * the top level that blocks the thread, such as an endless loop, is named with its source line.
 * Nothing is ended: a process that serves nothing harms nobody, and its supervisor sees that.
 */
import { workerData } from "node:worker_threads";
import { writeStderr } from "../node/writeStderr.ts";
import { Board } from "./Board.ts";
import { HoldMeter } from "./HoldMeter.ts";
import { MainThreadDebugger } from "./MainThreadDebugger.ts";
import type { LoadData } from "./watchLoad.ts";

/** A hundredth of the hold that is looked for. */
const LOOK_MS = 50;

const { memory, heldMsMax, file } = workerData as LoadData;
const board = new Board(memory);
const meter = new HoldMeter();

const looks = setInterval(() => {
  if (meter.look(board.beats, performance.now()) < heldMsMax || board.debugged) return;
  clearInterval(looks);
  void tell();
}, LOOK_MS);

async function tell(): Promise<void> {
  const thread = new MainThreadDebugger();
  const code = await thread.whatRuns(() => true).finally(() => thread.close());
  const where = code?.where ?? "native code";
  writeStderr(`${file} is still loading: ${where} blocks its process.\n`);
}
