/** The invariants of a run by number, each with its checker. */
import type { Violations } from "../../kit/checkers.ts";
import type { RunHistory } from "../rig/RunHistory.ts";
import {
  checkAcceptedIsAppliedOnce, checkAttemptsAreBounded, checkCommitsAreWhole, checkPoisonBlocksNobody,
} from "./inputs.ts"; // prettier-ignore
import {
  checkDamageIsFound,
  checkErasureLeftNothing,
  checkOneOwnerAnEpoch,
  checkReplayIsExact,
  checkTrimmingLosesNothing,
} from "./journals.ts";
import {
  checkClientsSeeWhatIsStored, checkForbiddenLeavesNothing, checkMessagesKeepTheirOrder, checkSentIsStored,
} from "./outputs.ts"; // prettier-ignore
import { checkMailIsAppliedOnce, checkMailSentIsStored } from "./mail.ts";
import { checkControlsHold } from "./controls.ts";
import { checkCallsApplyOnce } from "./calls.ts";
import { checkMarchesArrive } from "./marches.ts";
import { checkPaymentsEnd } from "./payments.ts";
import { checkRestoresPutBack } from "./restores.ts";
import { checkPetitionsEnd } from "./petitions.ts";
import { checkStopsHarmNobody } from "./stops.ts";
import { checkErrandsEnd } from "./errands.ts";
import { checkCancelledStaysCancelled, checkSchedulesRunWhenDue } from "./schedules.ts";

export interface Violation {
  readonly invariant: string;
  readonly what: string;
}

const CHECKERS: Readonly<Record<string, (run: RunHistory) => Violations>> = {
  I1: (run) => [...checkAcceptedIsAppliedOnce(run), ...checkMailIsAppliedOnce(run)],
  I2: checkReplayIsExact,
  I3: checkOneOwnerAnEpoch,
  I4: checkCommitsAreWhole,
  I5: checkSchedulesRunWhenDue,
  I6: checkCancelledStaysCancelled,
  I7: checkAttemptsAreBounded,
  I8: checkPoisonBlocksNobody,
  I9: checkClientsSeeWhatIsStored,
  I10: checkForbiddenLeavesNothing,
  I11: checkErasureLeftNothing,
  I12: checkDamageIsFound,
  I13: (run) => [...checkSentIsStored(run), ...checkMailSentIsStored(run)],
  I14: checkMessagesKeepTheirOrder,
  I15: (run) => [...checkErrandsEnd(run), ...checkControlsHold(run)],
  I16: checkMarchesArrive,
  I17: ({ observed }) => observed.unowned,
  I18: checkTrimmingLosesNothing,
  I19: ({ lostInArchive }) => lostInArchive,
  I20: checkCallsApplyOnce,
  I21: checkStopsHarmNobody,
  I22: checkPaymentsEnd,
  I23: checkRestoresPutBack,
  I24: checkPetitionsEnd,
  defect: ({ observed }) => observed.defects,
};

export const check = (run: RunHistory): ReadonlyArray<Violation> =>
  Object.entries(CHECKERS).flatMap(([invariant, checker]) =>
    checker(run).map((what) => ({ invariant, what })),
  );
