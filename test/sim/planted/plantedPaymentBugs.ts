/** Planted bugs of budgets and undos (`plantedBugs.ts`): counted twice, left over, not undone. */
import { Budgets } from "../../../core/budget/Budgets.ts";
import type { AgentImage } from "../../../core/journal/AgentImage.ts";
import { OpenParts } from "../../../core/journal/OpenParts.ts";
import { AgentSteps } from "../../../core/step/AgentSteps.ts";
import type { Turn } from "../../../core/turn/Turn.ts";
import { TurnSteps } from "../../../core/turn/TurnSteps.ts";
import { patch } from "../rig/patch.ts";
import type { PlantedBug } from "./plantedBugs.ts";

/** The private members of `Budgets` that a bug needs. */
interface BudgetsParts {
  readonly calls: WeakMap<Turn, unknown>;
  store: (turns: ReadonlyArray<Turn>) => void;
  keyOf: (turn: never) => { readonly id: string; readonly key: string };
  end: (id: string, isDead: boolean) => void;
}
const budgets = Budgets.prototype as unknown as BudgetsParts;

/** Each time that a turn names its next step. */
const afterNextKey = (change: (steps: TurnSteps) => void): (() => void) =>
  patch(
    TurnSteps.prototype,
    "nextKey",
    (plain) =>
      function (this: TurnSteps, name, within) {
        const key = plain.call(this, name, within);
        change(this);
        return key;
      },
  );

export const PAYMENT_BUGS: ReadonlyArray<PlantedBug> = [
  {
    name: "a turn that runs again reserves again",
    caughtBy: 8,
    breaks: ["I22"],
    install: () => {
      let calls = 0;
      return patch(
        budgets,
        "keyOf",
        (plain) =>
          function (this: BudgetsParts, turn) {
            const { id, key } = plain.call(this, turn);
            return { id, key: `${key} ${++calls}` };
          },
      );
    },
  },
  {
    name: "what a dead input had reserved stays spent",
    caughtBy: 8,
    breaks: ["I22"],
    install: () =>
      patch(
        budgets,
        "end",
        (plain) =>
          function (this: BudgetsParts, id) {
            plain.call(this, id, false);
          },
      ),
  },
  {
    name: "a reservation outlives its input",
    caughtBy: 8,
    breaks: ["I22"],
    install: () => patch(budgets, "end", () => () => undefined),
  },
  {
    name: "what a run had reserved that a later one did not repeat outlives its input",
    caughtBy: 37,
    breaks: ["I22"],
    install: () =>
      patch(
        budgets,
        "store",
        (plain) =>
          function (this: BudgetsParts, turns) {
            plain.call(
              this,
              turns.filter((turn) => this.calls.has(turn)),
            );
          },
      ),
  },
  {
    name: "the first step of a turn is not undone",
    caughtBy: 17,
    breaks: ["I22"],
    install: () => afterNextKey(({ undos }) => void undos.delete("1:buy")),
  },
  {
    name: "the bill of an interrupted run stays, and is written twice",
    caughtBy: 8,
    breaks: ["I22"],
    install: () => patch(OpenParts, "after", () => () => undefined),
  },
  {
    name: "steps are undone in their own order",
    caughtBy: 17,
    breaks: ["I22"],
    install: () =>
      afterNextKey(({ undos }) => {
        const all = [...undos];
        undos.clear();
        for (const [of, undo] of all.toReversed()) undos.set(of, undo);
      }),
  },
  {
    name: "an undo that has ended is run again",
    caughtBy: 37,
    breaks: ["I22"],
    install: () =>
      patch(
        AgentSteps.prototype,
        "run",
        (plain) =>
          function (this: AgentSteps, ...args) {
            const { image } = (this as unknown as { agent: { image: AgentImage } }).agent;
            for (const steps of image.steps?.values() ?? [])
              for (const key of steps.keys()) if (/^undo \d/.test(key)) steps.delete(key);
            return plain.apply(this, args as never) as never;
          } as typeof plain,
      ),
  },
];
