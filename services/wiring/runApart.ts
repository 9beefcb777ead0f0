/**
 * Runs slow statements for the thread that has the view (`queryThread`): each on a copy of the
 * view's file, in a thread that ends with it (`statementThread`). The copy is removed then.
 */
import { constants, cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { RunApart } from "../../core/query/Queries.ts";
import { errorOf, startThread } from "./readerThread.ts";
import type { Said, StatementThreadData } from "./statementThread.ts";

/** `view`: the folder of the saved view. `copies`: a folder for the copies, which is emptied. */
export function runApart(
  { view, copies }: { readonly view: string; readonly copies: string },
  namespace: string,
): RunApart {
  let count = 0;
  // A thread that ended before its statements has left their copies.
  rmSync(copies, { recursive: true, force: true });
  return async (question) => {
    const folder = join(copies, String(++count));
    try {
      // Some filesystems copy no bytes until one of the files changes.
      cpSync(view, folder, { recursive: true, mode: constants.COPYFILE_FICLONE });
      const data: StatementThreadData = { folder, namespace, question };
      const { worker, ended } = startThread("statementThread", data);
      const said = await Promise.race([
        new Promise<Said>((resolve) => worker.once("message", resolve)),
        ended.then((error) => Promise.reject(error)),
      ]);
      await worker.terminate();
      if ("failed" in said) throw errorOf(said.failed);
      return said.answer;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
}
