/**
 * Joins `agents rerun` and `--on-fork` with the harness for tests of agents, which runs inputs on a
 * module's code. No connection but the broker's opens meanwhile. Imported when a command needs it.
 */
import type { RerunEvent } from "../../core/history/Rerun.ts";
import { sealedWhile } from "../node/sealProcess.ts";
import { rerunEvent, type RerunCode } from "../testing/rerunEvent.ts";

export const rerunOn =
  (code: RerunCode, broker: string): RerunEvent =>
  (event) =>
    sealedWhile(broker, () => rerunEvent(code, event));
