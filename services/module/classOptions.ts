/**
 * Checks the `static options` of a class. `readModule` refuses a module whose class has a fault.
 * Otherwise a misspelt option would have no effect, and an invalid value would fail the first
 * input. Pure.
 */
import type { AgentStaticOptions } from "../../core/agent/AgentStaticOptions.ts";
import { optionsFault } from "../../core/errors/checkOptions.ts";
import { nearest } from "../../core/errors/nearest.ts";
import { shownValue } from "../../core/errors/shownValue.ts";
import { isFieldPath } from "../../core/redaction/FieldRedaction.ts";
import { historyFault } from "../../core/retention/HistoryLimits.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import { RETRY_OPTIONS, resolveRetry } from "../../core/retry/retryPolicy.ts";
import type { RetryOptions } from "../../core/retry/RetryOptions.ts";

/** Says what to use instead; undefined for a value that can be used. */
type Check = (value: unknown) => string | undefined;

const use =
  (what: string, fits: (value: unknown) => boolean): Check =>
  (value) =>
    fits(value) ? undefined : `is ${shownValue(value)}: use ${what}`;
const isNumber = (value: unknown): value is number =>
  typeof value === "number" && !Number.isNaN(value);
const flag = use("true or false", (value) => typeof value === "boolean");
const seconds = use("a number of seconds", (value) => isNumber(value) && value >= 0);
const milliseconds = use("a number of milliseconds", (value) => isNumber(value) && value >= 0);
const limit = use("a number above 0", (value) => isNumber(value) && value > 0);
const fields = use('a list of fields, like ["customer.email", "card.*"]', (value) =>
  Array.isArray(value)
    ? value.every((path) => typeof path === "string" && isFieldPath(path))
    : false,
);

/** With the defaults for what it leaves out, as the agent's inputs use it. */
function retryFault(retry: RetryOptions): string | undefined {
  try {
    resolveRetry(retry);
    return undefined;
  } catch (error) {
    return messageOf(error).replaceAll("retry.", "");
  }
}

const CHECKS: { readonly [Option in keyof Required<AgentStaticOptions>]: Check } = {
  hibernate: flag,
  hibernateAfterSeconds: seconds,
  sendIdentityOnConnect: flag,
  hungScheduleTimeoutSeconds: seconds,
  retry: (value) => optionsFault(value, RETRY_OPTIONS) ?? retryFault(value as RetryOptions),
  history: historyFault,
  cpuSeconds: seconds,
  turnSeconds: seconds,
  keepAliveIntervalMs: milliseconds,
  fiberRecoveryScanDeadlineMs: milliseconds,
  fiberRecoveryMaxAgeMs: milliseconds,
  http: use(
    '"open", or leave it out: without it, a class with signed webhooks is closed (docs/guides/access.md)',
    (value) => value === "open",
  ),
  record: flag,
  redact: fields,
  allowPrivateHosts: flag,
  stateBytesMax: limit,
  commitBytesMax: limit,
  journalBytesPerMinute: limit,
  sqlRowsMax: limit,
  queueMax: limit,
  schedulesMax: limit,
  outgoingMax: limit,
  connectionsMax: limit,
  subAgentsMax: limit,
  waitingMax: limit,
};

/** `hibernateAfterSeconds` without its unit. */
const stemOf = (option: string): string =>
  option.replace(/(?:Ms|Millis|Milliseconds|S|Secs?|Seconds|Minutes|Bytes|KiB|MiB)?$/, "");

/** The option that says the same in another unit; `nearest` takes only a few letters for a slip. */
const inOtherUnit = (option: string): string | undefined =>
  Object.keys(CHECKS).find((known) => stemOf(known) === stemOf(option) && stemOf(known) !== known);

/** Undefined when there is none. A class may have other options that are not like any of these. */
export function classOptionsFault(options: unknown): string | undefined {
  if (options === undefined) return undefined;
  if (typeof options !== "object" || options === null) return "it must be an object";
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(CHECKS, option)) {
      const meant = nearest(option, Object.keys(CHECKS)) ?? inOtherUnit(option);
      if (meant === undefined) continue;
      return `it has "${option}", which nothing reads. Did you mean "${meant}"?`;
    }
    const fault = CHECKS[option as keyof typeof CHECKS](value);
    if (fault !== undefined) return `${option}${/^(is|has) /.test(fault) ? " " : ": "}${fault}`;
  }
  return undefined;
}
