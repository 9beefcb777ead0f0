/**
 * The thread that answers a host's questions over all agents (`HostQueries` starts it): with a
 * connection and a view of its own, so that neither the reading of journals nor a statement blocks
 * the host's thread. Statements that take long run in threads of their own (`runApart`). Messages
 * to it are `ToThread`, from it `FromThread`.
 */
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { KnownChanges } from "../../core/query/KnownChanges.ts";
import type { OwnChange } from "../../core/query/OwnEvents.ts";
import { Queries, type AnswerBytes } from "../../core/query/Queries.ts";
import { View, VIEW_RESIDENT_BYTES } from "../../core/query/View.ts";
import type { AgentsQuestion } from "../../schemas/AgentsQuestion.ts";
import { processLog } from "../node/ProcessLog.ts";
import { openSqliteDatabases } from "../sqlite/sqliteDatabases.ts";
import { openReader } from "./joinReader.ts";
import type { Target } from "./ReadPorts.ts";
import { failedOf, type Failed } from "./readerThread.ts";
import { runApart } from "./runApart.ts";

export interface QueryThreadData {
  readonly target: Target;
  /** Where the view is kept, and its copies. */
  readonly folder: string;
}

/** `own`: of the events that the host has stored since its last message. */
export type ToThread =
  | {
      readonly id: number;
      readonly own: ReadonlyArray<OwnChange>;
      readonly question: AgentsQuestion;
    }
  /** An agent was erased. */
  | { readonly id: number; readonly own: ReadonlyArray<OwnChange>; readonly erased: true }
  | { readonly close: true };

export interface FromThread {
  readonly id: number;
  /** Absent where nothing was asked. */
  readonly answer?: AnswerBytes;
  readonly failed?: Failed;
  /** The thread could not open its connection or its view, and will answer nothing. */
  readonly unopened?: true;
}

async function open({ target, folder }: QueryThreadData) {
  const ports = await openReader(target, { role: "host", log: processLog() });
  const folders = { view: join(folder, "current"), copies: join(folder, "copies") };
  const opened = await openSqliteDatabases({
    folder: folders.view,
    residentBytesMax: VIEW_RESIDENT_BYTES,
  });
  const { changes, namespace } = ports;
  const view = new View(opened.databases, namespace);
  const known = new KnownChanges(changes);
  const sources = { changes: known, agents: ports };
  const close = async (): Promise<void> => {
    view.close();
    opened.close();
    await ports.close();
  };
  const apart = runApart(folders, namespace);
  return { queries: new Queries(view, () => view.catchUp(sources), apart), known, close };
}

const opening = open(workerData as QueryThreadData);
let unopened: true | undefined;
// Each question reports the failure.
opening.catch(() => (unopened = true));

async function answer(asked: Exclude<ToThread, { close: true }>): Promise<FromThread> {
  const { id } = asked;
  try {
    const { queries, known } = await opening;
    known.add(asked.own);
    if ("question" in asked) return { id, answer: await queries.answer(asked.question) };
    await queries.erased();
    return { id };
  } catch (error) {
    return { id, failed: failedOf(error), ...(unopened === undefined ? {} : { unopened }) };
  }
}

parentPort!.on("message", (asked: ToThread) => {
  if (!("close" in asked))
    return void answer(asked).then((said) =>
      parentPort!.postMessage(said, said.answer === undefined ? [] : [said.answer.buffer]),
    );
  parentPort!.close();
  void opening.then(({ close }) => close());
});
