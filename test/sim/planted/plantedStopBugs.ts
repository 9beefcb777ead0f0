/** Planted bugs of turns that are stopped with their process (`plantedBugs.ts`). */
import { Suspects } from "../../../core/input/Suspects.ts";
import { IsolationWard } from "../../../services/workers/IsolationWard.ts";
import { patch } from "../rig/patch.ts";
import type { PlantedBug } from "./plantedBugs.ts";

export const STOP_BUGS: ReadonlyArray<PlantedBug> = [
  {
    name: "an agent that has ended a worker runs among the others again",
    caughtBy: 2,
    breaks: ["I21"],
    install: () => patch(IsolationWard.prototype, "join", () => () => []),
  },
  {
    name: "the attempt that ended a process is not counted",
    caughtBy: 2,
    breaks: ["I21"],
    install: () => patch(Suspects.prototype, "ended", () => () => 0),
  },
  {
    name: "a turn spends an attempt when another's ends its process",
    caughtBy: 78,
    breaks: ["I21"],
    install: () => patch(Suspects.prototype, "forgive", () => () => false),
  },
];
