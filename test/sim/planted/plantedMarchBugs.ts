/**
 * Planted bugs of fibers (`plantedBugs.ts`): what is stashed, what is found, what goes on in an
 * interrupted one's place, and what its steps have returned.
 */
import { Fibers } from "../../../core/fiber/Fibers.ts";
import { FiberSteps } from "../../../core/fiber/FiberSteps.ts";
import { FiberTable } from "../../../core/fiber/FiberTable.ts";
import { patch } from "../rig/patch.ts";
import type { PlantedBug } from "./plantedBugs.ts";

export const MARCH_BUGS: ReadonlyArray<PlantedBug> = [
  {
    name: "what a fiber stashes is lost",
    caughtBy: 5,
    breaks: ["I16"],
    install: () => patch(FiberTable.prototype, "stash", () => () => undefined),
  },
  {
    name: "an interrupted fiber is not looked for",
    caughtBy: 4,
    breaks: ["I16"],
    install: () => patch(Fibers.prototype, "recover", () => () => Promise.resolve()),
  },
  {
    name: "a fiber that goes on in another's place runs its steps again",
    caughtBy: 5,
    breaks: ["I16"],
    install: () => patch(FiberSteps.prototype, "moved", () => () => undefined),
  },
  {
    name: "a fiber that goes on in another's place leaves that one there",
    caughtBy: 9,
    breaks: ["I16"],
    install: () =>
      patch(
        Fibers.prototype,
        "add",
        (plain) =>
          function (this: Fibers, row) {
            const offRecovered = patch(FiberTable.prototype, "recovered", () => () => undefined);
            try {
              plain.call(this, row);
            } finally {
              offRecovered();
            }
          },
      ),
  },
];
