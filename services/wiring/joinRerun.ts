/**
 * Joins `agents rerun` with the harness that tests of agents use: a module, and how to run a past event on it. Imported
 * when the command needs it.
 */
import type { RerunEvent } from "../../core/journal/Rerun.ts";
import { rerunEvent, type RerunCode } from "../testing/rerunEvent.ts";

export const rerunOn =
  (code: RerunCode): RerunEvent =>
  (event) =>
    rerunEvent(code, event);
