/**
 * What the threads that run SQL over all agents (`queryThread`, `statementThread`) share: their
 * limits, their files, and how they say why there is no answer.
 */
import { Worker, type WorkerOptions } from "node:worker_threads";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import { QueryRefused, UnknownClass } from "../../core/query/askView.ts";
import { builtFile } from "../ownPackage/ownFile.ts";

/** Past it the thread ends, and nothing else. Rows of an answer are in it several times. */
const HEAP_MB_MAX = 1_024;

/** Why there is no answer. `refused`: the question is at fault, `unknown`: by a class in it. */
export interface Failed {
  readonly message: string;
  readonly refused: boolean;
  readonly unknown: boolean;
}

export const failedOf = (error: unknown): Failed => ({
  message: messageOf(error),
  refused: error instanceof QueryRefused,
  unknown: error instanceof UnknownClass,
});

/** The inverse of `failedOf`. */
export function errorOf({ message, refused, unknown }: Failed): Error {
  if (unknown) return new UnknownClass(message);
  return refused ? new QueryRefused(message) : new BrokerUnavailable({ message });
}

interface ReaderThread {
  readonly worker: Worker;
  /** Resolves when the thread has ended, to the reason for its questions. Never rejects. */
  readonly ended: Promise<QueryRefused>;
}

export function startThread(
  name: "queryThread" | "statementThread",
  workerData: WorkerOptions["workerData"],
): ReaderThread {
  const worker = new Worker(threadFile(name), {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB_MAX },
    // Node's own options are those of the main thread; the module's loader is not needed.
    execArgv: [],
  });
  worker.unref();
  let why = "The thread that answers queries has ended";
  worker.on("error", (error: NodeJS.ErrnoException) => {
    const isFull = error.code === "ERR_WORKER_OUT_OF_MEMORY";
    why = isFull ? "The query took too much memory: select fewer rows or columns" : error.message;
  });
  const ended = new Promise<QueryRefused>((resolve) =>
    worker.once("exit", () => resolve(new QueryRefused(why))),
  );
  return { worker, ended };
}

/** Only built code runs in it: `npm run build` comes before tests that start processes. */
const threadFile = (name: string): URL => builtFile(`services/wiring/${name}.js`);
