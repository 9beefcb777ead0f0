/**
 * Makes the id of a schedule, in the form of the column's default (`interface.md` §2.4): 9 random
 * bytes as 18 hex digits.
 */
import type { TimeShape } from "../time/Time.ts";

/** As in the default of the column. */
const ID_BYTES = 9;
/** Two hex digits of each byte. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function newScheduleId({ random }: Pick<TimeShape, "random">): string {
  let id = "";
  for (let n = 0; n < ID_BYTES; n++) id += HEX[Math.floor(random() * HEX.length)]!;
  return id;
}
