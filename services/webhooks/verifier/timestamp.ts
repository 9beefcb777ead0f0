/**
 * The signed time of a request: how providers write it, and whether it is close enough to now. The
 * verifier passes the request's own clock.
 */

/** `s` and `ms`: decimal digits since the epoch. `iso`: ISO 8601 with a zone. */
export type TimestampUnit = "s" | "ms" | "iso";

/** Eleven digits of seconds reach the year 5138. */
const SECONDS = /^\d{1,11}$/;
const MILLISECONDS = /^\d{1,14}$/;
const ISO_8601 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** Milliseconds since the epoch; undefined for text that is not a time in that unit. */
function parseTimestampMs(text: string, unit: TimestampUnit): number | undefined {
  switch (unit) {
    case "s":
      return SECONDS.test(text) ? Number(text) * 1000 : undefined;
    case "ms":
      return MILLISECONDS.test(text) ? Number(text) : undefined;
    case "iso": {
      const ms = ISO_8601.test(text) ? Date.parse(text) : NaN;
      return Number.isNaN(ms) ? undefined : ms;
    }
  }
}

/** A time as the provider writes it. */
export function formatTimestamp(ms: number, unit: TimestampUnit): string {
  switch (unit) {
    case "s":
      return String(Math.floor(ms / 1000));
    case "ms":
      return String(Math.floor(ms));
    case "iso":
      return new Date(ms).toISOString();
  }
}

/**
 * Why a signed time is refused. Undefined when it is within `toleranceSeconds` of now, both ends
 * included; without a tolerance every valid time is accepted. Now is truncated to the provider's
 * unit first, as in the vendors' libraries: a request signed exactly 300 seconds ago is in time
 * until its second ends.
 */
export function refuseTimestamp(
  text: string,
  unit: TimestampUnit,
  options: { readonly nowMs: number; readonly toleranceSeconds: number | undefined },
): string | undefined {
  const signedMs = parseTimestampMs(text, unit);
  if (signedMs === undefined) return "the timestamp is not a time";
  if (options.toleranceSeconds === undefined) return undefined;
  const nowMs = unit === "s" ? Math.floor(options.nowMs / 1000) * 1000 : options.nowMs;
  const ageSeconds = (nowMs - signedMs) / 1000;
  if (ageSeconds > options.toleranceSeconds) return `the timestamp is ${ageSeconds} s old`;
  if (-ageSeconds > options.toleranceSeconds) return `the timestamp is ${-ageSeconds} s ahead`;
  return undefined;
}
