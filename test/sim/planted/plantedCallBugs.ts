/** Planted bugs of steps (`plantedBugs.ts`): parts that stay, lost results, unawaited turns. */
import { CallResults } from "../../../core/durableCall/CallResults.ts";
import { AgentSteps } from "../../../core/step/AgentSteps.ts";
import type { AgentImage } from "../../../core/journal/AgentImage.ts";
import { OpenParts } from "../../../core/journal/OpenParts.ts";
import { Holds } from "../../../core/turn/Holds.ts";
import { TurnSteps } from "../../../core/turn/TurnSteps.ts";
import { patch } from "../rig/patch.ts";
import type { PlantedBug } from "./plantedBugs.ts";

export const CALL_BUGS: ReadonlyArray<PlantedBug> = [
  {
    name: "a part of an interrupted turn stays, and applies twice",
    breaks: ["I20"],
    install: () => patch(OpenParts, "after", () => () => undefined),
  },
  {
    name: "a step's result is lost",
    breaks: ["I20"],
    install: () =>
      patch(
        TurnSteps.prototype,
        "take",
        (plain) =>
          function (this: TurnSteps) {
            return plain.call(this)?.slice(1);
          },
      ),
  },
  {
    name: "a step that is done is run again",
    breaks: ["I20"],
    install: () =>
      patch(
        AgentSteps.prototype,
        "run",
        (plain) =>
          function (this: AgentSteps, ...args) {
            (this as unknown as { agent: { image: AgentImage } }).agent.image.steps = undefined;
            return plain.apply(this, args as never) as never;
          } as typeof plain,
      ),
  },
  {
    name: "a durable call that is asked for again runs again",
    breaks: ["I20"],
    install: () => {
      let ended = 0;
      const offGet = patch(CallResults.prototype, "get", () => () => undefined);
      const offAdd = patch(
        CallResults.prototype,
        "add",
        (plain) =>
          function (this: CallResults, key, ...rest) {
            plain.call(this, `${key} ${++ended}`, ...rest);
          },
      );
      return () => {
        offGet();
        offAdd();
      };
    },
  },
  {
    name: "other turns' writes do not wait for a turn in a step",
    breaks: ["I20"],
    install: () => patch(Holds.prototype, "reason", () => () => undefined),
  },
];
