/** Planted bugs of approvals (`plantedBugs.ts`): a second decision or question, a lost timeout. */
import { Approvals, type ApprovalRow } from "../../../core/approval/Approvals.ts";
import { patch } from "../rig/patch.ts";
import type { PlantedBug } from "./plantedBugs.ts";

/** The private members of `Approvals` that a bug needs. */
interface ApprovalsParts {
  find: (which: string) => ApprovalRow;
}

export const PETITION_BUGS: ReadonlyArray<PlantedBug> = [
  {
    name: "an approval that is decided can be decided again",
    caughtBy: 2,
    breaks: ["I24"],
    install: () =>
      patch(
        Approvals.prototype as unknown as ApprovalsParts,
        "find",
        (plain) =>
          function (this: ApprovalsParts, which) {
            return { ...plain.call(this, which), status: "waiting", by: null };
          },
      ),
  },
  {
    name: "an approval whose time is up is not written as over",
    caughtBy: 2,
    breaks: ["I24"],
    install: () =>
      patch(
        Approvals.prototype,
        "settle",
        (plain) =>
          function (this: Approvals, key, answer) {
            if (answer !== "expired") plain.call(this, key, answer);
          },
      ),
  },
  {
    name: "a fiber that goes on after a crash asks people anew",
    caughtBy: 2,
    breaks: ["I24"],
    install: () => patch(Approvals.prototype, "move", () => () => undefined),
  },
];
