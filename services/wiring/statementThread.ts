/**
 * The thread that runs one slow statement (`runApart` starts it) on a copy of the view, so that it
 * holds no other question. Its one message is a `Said`.
 */
import { parentPort, workerData } from "node:worker_threads";
import { answerFrom, type AnswerBytes } from "../../core/query/Queries.ts";
import { View, VIEW_RESIDENT_BYTES } from "../../core/query/View.ts";
import type { AgentsQuestion } from "../../schemas/AgentsQuestion.ts";
import { openSqliteDatabases, READER_HEAP_BYTES_MAX } from "../sqlite/sqliteDatabases.ts";
import { failedOf, type Failed } from "./readerThread.ts";

export interface StatementThreadData {
  /** Where the copy is. */
  readonly folder: string;
  readonly namespace: string;
  readonly question: AgentsQuestion;
}

export type Said = { readonly answer: AnswerBytes } | { readonly failed: Failed };

async function run({ folder, namespace, question }: StatementThreadData): Promise<AnswerBytes> {
  const { databases, close } = await openSqliteDatabases({
    folder,
    residentBytesMax: VIEW_RESIDENT_BYTES,
    hardHeapBytesMax: READER_HEAP_BYTES_MAX,
  });
  try {
    return answerFrom(new View(databases, namespace, { kept: false }), question);
  } finally {
    close();
  }
}

const say = (said: Said, buffers: ArrayBuffer[] = []): void =>
  parentPort!.postMessage(said, buffers);

run(workerData as StatementThreadData).then(
  (answer) => say({ answer }, [answer.buffer]),
  (error: unknown) => say({ failed: failedOf(error) }),
);
