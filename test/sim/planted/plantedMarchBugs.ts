/** Planted bugs of fibers (`plantedBugs.ts`): stashes, recoveries, results, and undos. */
import { Fibers } from "../../../core/fiber/Fibers.ts";
import { FiberRecovery } from "../../../core/fiber/FiberRecovery.ts";
import { FiberSteps } from "../../../core/fiber/FiberSteps.ts";
import { FiberTable } from "../../../core/fiber/FiberTable.ts";
import { AgentSteps } from "../../../core/step/AgentSteps.ts";
import type { StepStore } from "../../../core/step/StepStore.ts";
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
    install: () => patch(FiberRecovery.prototype, "all", () => () => Promise.resolve()),
  },
  {
    name: "a fiber that goes on in another's place runs its steps again",
    caughtBy: 5,
    breaks: ["I16"],
    install: () => patch(FiberSteps.prototype, "moved", () => () => undefined),
  },
  {
    name: "a fiber that fails undoes nothing",
    caughtBy: 5,
    breaks: ["I16"],
    install: () =>
      patch(
        AgentSteps.prototype,
        "undo",
        (plain) =>
          function (this: AgentSteps, turn, failure) {
            if (turn.durable) return plain.call(this, turn, failure);
            return Promise.resolve({ reason: failure, undone: false });
          },
      ),
  },
  {
    name: "an undo of a fiber that has ended is run again",
    caughtBy: 5,
    breaks: ["I16"],
    install: () =>
      patch(
        FiberSteps.prototype,
        "of",
        (plain) =>
          function (this: FiberSteps, turn) {
            const store = plain.call(this, turn);
            if (store === undefined) return undefined;
            const find: StepStore["find"] = (key) =>
              key.startsWith("undo ") ? undefined : store.find(key);
            return Object.create(store, { find: { value: find } }) as StepStore;
          },
      ),
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
              return plain.call(this, row);
            } finally {
              offRecovered();
            }
          },
      ),
  },
];
