/**
 * fast-check for property tests. Its seed follows from the commit: what passed once for a commit
 * passes again, and every commit tries other values. `PROPERTY_SEED=<number>` sets the seed, for
 * example that of a failure, which prints it.
 */
import { execFileSync } from "node:child_process";
import fc from "fast-check";

/** Hexadecimal digits of a commit that make a seed: the most that are a 32-bit integer. */
const SEED_DIGITS = 7;
/** Outside a checkout. */
const NO_COMMIT = "1";

function commit(): string {
  try {
    return execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8", stdio: "pipe" });
  } catch {
    return NO_COMMIT;
  }
}

const given = process.env["PROPERTY_SEED"];
const seed = given === undefined ? parseInt(commit().slice(0, SEED_DIGITS), 16) : Number(given);
if (!Number.isSafeInteger(seed))
  throw new Error(`PROPERTY_SEED is not an integer: ${String(given)}`);
fc.configureGlobal({ seed });

export default fc;
