/**
 * Preloaded (`node --import`) into processes of the fault rig: SIGUSR2 makes the process read how
 * many milliseconds its wall clock is off from the file `CLOCK_FILE`. Its monotonic clock is not
 * changed.
 */
import { readFileSync } from "node:fs";

const RealDate = Date;
let shiftMs = 0;

globalThis.Date = class Date extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + shiftMs);
    else super(...args);
  }
  static now() {
    return RealDate.now() + shiftMs;
  }
};

process.on("SIGUSR2", () => {
  shiftMs = Number(readFileSync(process.env.CLOCK_FILE, "utf8"));
});
