/**
 * The thread that answers a host's questions over all agents (`joinQueries` starts it): with a
 * connection and a view of its own, so that neither the reading of journals nor a statement blocks
 * the host's thread. Messages to it are `ToThread`, from it `FromThread`.
 */
import { parentPort, workerData } from "node:worker_threads";
import { QueryRefused, UnknownClass } from "../../core/query/askView.ts";
import { Queries } from "../../core/query/Queries.ts";
import { View, VIEW_LIMITS } from "../../core/query/View.ts";
import type { AgentsQuestion } from "../../schemas/AgentsQuestion.ts";
import { openSqliteDatabases } from "../sqlite/sqliteDatabases.ts";
import { openReader } from "./joinReader.ts";
import type { Target } from "./Joins.ts";
import { messageOf } from "../../core/errors/thrown.ts";

export interface QueryThreadData {
  readonly target: Target;
  /** Where the view is kept. */
  readonly folder: string;
}

export type ToThread =
  | { readonly id: number; readonly question: AgentsQuestion }
  /** An agent was erased. */
  | { readonly id: number; readonly erased: true }
  | { readonly close: true };

export interface FromThread {
  readonly id: number;
  /** Absent where nothing was asked. */
  readonly answer?: Uint8Array<ArrayBuffer>;
  /** Why there is none. `refused`: the question is at fault, `unknown`: by a class in it. */
  readonly failed?: {
    readonly message: string;
    readonly refused: boolean;
    readonly unknown: boolean;
  };
}

/** With room for one more batch: pages past it are written before the save. */
const RESIDENT_BYTES_MAX = 2 * VIEW_LIMITS.unsavedBytesMax;

async function open({ target, folder }: QueryThreadData) {
  const ports = await openReader(target, { role: "host" });
  const opened = await openSqliteDatabases({ folder, residentBytesMax: RESIDENT_BYTES_MAX });
  const { journal, snapshots, databases, changes, namespace } = ports;
  const view = new View(opened.databases, namespace);
  const sources = { changes, agents: { journal, snapshots, databases } };
  const close = async (): Promise<void> => {
    view.close();
    opened.close();
    await ports.close();
  };
  return { queries: new Queries(view, () => view.catchUp(sources)), close };
}

const opening = open(workerData as QueryThreadData);
// Each question reports the failure.
opening.catch(() => undefined);

async function answer(asked: Exclude<ToThread, { close: true }>): Promise<FromThread> {
  const { id } = asked;
  try {
    const { queries } = await opening;
    if ("question" in asked) return { id, answer: await queries.answer(asked.question) };
    await queries.erased();
    return { id };
  } catch (error) {
    const message = messageOf(error);
    const refused = error instanceof QueryRefused;
    return { id, failed: { message, refused, unknown: error instanceof UnknownClass } };
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
