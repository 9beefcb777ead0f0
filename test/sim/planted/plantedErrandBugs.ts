/** Planted bugs of workflows (`plantedBugs.ts`): how they begin, continue, stop and fail. */
import { ActiveAgent } from "../../../core/runtime/ActiveAgent.ts";
import type { QueueLane } from "../../../core/queue/QueueLane.ts";
import { SignalLane } from "../../../core/workflow/SignalLane.ts";
import { RunTable } from "../../../core/workflow/RunTable.ts";
import { Undos } from "../../../core/workflow/Undos.ts";
import { Wakes } from "../../../core/workflow/Wakes.ts";
import { patch } from "../rig/patch.ts";
import type { PlantedBug } from "./plantedBugs.ts";
import { sendsEarlyInTurn } from "./sendEarly.ts";

export const ERRAND_BUGS: ReadonlyArray<PlantedBug> = [
  {
    name: "a workflow gets a result before it is stored",
    caughtBy: 4,
    breaks: ["I15"],
    install: () =>
      patch(
        ActiveAgent.prototype,
        "flush",
        (plain) =>
          function (this: ActiveAgent) {
            const stored = plain.call(this);
            if (this.id.class !== "Errand") return stored;
            stored.catch(() => undefined);
            return Promise.resolve();
          },
      ),
  },
  {
    name: "a workflow starts before the turn that asked for it is stored",
    caughtBy: 9,
    breaks: ["I15"],
    install: () =>
      sendsEarlyInTurn(SignalLane.prototype as unknown as Pick<QueueLane, "push">, "runWorkflow"),
  },
  {
    name: "a paused workflow goes on",
    caughtBy: 4,
    breaks: ["I15"],
    install: () =>
      patch(
        RunTable.prototype,
        "run",
        (plain) =>
          function (this: RunTable) {
            const run = plain.call(this);
            return run && { ...run, paused: false };
          },
      ),
  },
  {
    name: "a terminated workflow goes on",
    caughtBy: 54,
    breaks: ["I15"],
    install: () => {
      const offRun = patch(
        RunTable.prototype,
        "run",
        (plain) =>
          function (this: RunTable) {
            const run = plain.call(this);
            return run?.status === "terminated" ? { ...run, status: "running" } : run;
          },
      );
      const offWakes = patch(
        Wakes.prototype,
        "cancel",
        (plain) =>
          function (this: Wakes, key) {
            if (key !== undefined) plain.call(this, key);
          },
      );
      return () => {
        offRun();
        offWakes();
      };
    },
  },
  {
    name: "a workflow that fails undoes nothing",
    caughtBy: 54,
    breaks: ["I15"],
    install: () => patch(Undos.prototype, "due", () => () => []),
  },
  {
    name: "steps of a workflow are undone in their own order",
    caughtBy: 5,
    breaks: ["I15"],
    install: () =>
      patch(
        Undos.prototype,
        "due",
        (plain) =>
          function (this: Undos) {
            return plain.call(this).toReversed();
          },
      ),
  },
  {
    name: "an undo of a workflow that has ended is run again",
    caughtBy: 5,
    breaks: ["I15"],
    install: () =>
      patch(
        Undos.prototype,
        "recordOf",
        (plain) =>
          function (this: Undos, key) {
            return key.startsWith("undo ") ? undefined : plain.call(this, key);
          },
      ),
  },
  {
    name: "a workflow that is restarted keeps its results",
    breaks: ["I15"],
    install: () =>
      patch(
        RunTable.prototype,
        "restart",
        (plain) =>
          function (this: RunTable, startedMs) {
            const steps = this.steps();
            plain.call(this, startedMs);
            for (const step of steps) this.put(step);
          },
      ),
  },
];
