/**
 * Joins `agents rerun` with the harness for tests of agents, which runs a past event on a module's
 * code. Imported when the command needs it.
 */
import type { RerunEvent } from "../../core/history/Rerun.ts";
import { rerunEvent, type RerunCode } from "../testing/rerunEvent.ts";

export const rerunOn =
  (code: RerunCode): RerunEvent =>
  (event) =>
    rerunEvent(code, event);
