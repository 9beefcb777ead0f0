/**
 * How much of its agents' history a class keeps in the journal: `static options = { history: … }`,
 * or `--history` for classes that set none. Default: all of it, for ever.
 *
 * 1. With several limits, an event is removed when any of them is exceeded.
 * 2. An agent is trimmed once it exceeds a limit by a tenth, down to the limit. Trimming stores a
 *    new base, so it must not happen for each event.
 * 3. Events younger than `KEPT_MS_MIN` stay, whatever the limits are.
 */

export interface HistoryLimits {
  /** Age in days. May be a fraction. */
  readonly days?: number;
  /** Number of journal events. */
  readonly events?: number;
  /** Bytes of journal events. */
  readonly bytes?: number;
}

/** `"all"`: nothing is ever trimmed. */
export type HistoryOption = HistoryLimits | "all";

/** Days are of 24 hours, whatever the calendar says. */
const DAY_MS = 24 * 3600 * 1000;
const LIMITS = ["days", "events", "bytes"] as const;
/** Rule 2. */
const SLACK = 1.1;
/**
 * Rule 3. A follower or writer of a journal is seldom further behind. Nothing depends on it: an
 * append whose event was trimmed ends with an unknown outcome.
 */
export const KEPT_MS_MIN = 60_000;

/** Returns what is wrong with an option, in words; undefined for a valid one. */
export function historyFault(option: unknown): string | undefined {
  if (option === "all") return undefined;
  if (typeof option !== "object" || option === null)
    return `is ${JSON.stringify(option)}: use "all", or limits as in { days: 30 }`;
  const unknown = Object.keys(option).find((key) => !(LIMITS as readonly string[]).includes(key));
  if (unknown !== undefined) return `has "${unknown}": the limits are ${LIMITS.join(", ")}`;
  for (const limit of LIMITS) {
    const value = (option as Record<string, unknown>)[limit];
    if (value === undefined) continue;
    if (typeof value !== "number" || !(value > 0) || value === Infinity)
      return `has ${limit} ${String(value)}: use a number above 0`;
  }
  return undefined;
}

/** Undefined where nothing is limited. */
export function limitsOf(option: HistoryOption | undefined): HistoryLimits | undefined {
  if (option === undefined || option === "all") return undefined;
  return LIMITS.some((limit) => option[limit] !== undefined) ? option : undefined;
}

/** The known facts of a journal. */
export interface JournalSize {
  readonly events: number;
  /** When its first event was stored, milliseconds since the epoch. */
  readonly firstStoredMs: number;
  /** Undefined where the size was not measured. */
  readonly bytes: number | undefined;
}

/** Rule 2. */
export function exceeds(limits: HistoryLimits, size: JournalSize, nowMs: number): boolean {
  const { days = Infinity, events = Infinity, bytes = Infinity } = limits;
  const ageMs = nowMs - size.firstStoredMs;
  if (ageMs < KEPT_MS_MIN) return false;
  return (
    ageMs > days * DAY_MS * SLACK ||
    size.events > events * SLACK ||
    (size.bytes ?? 0) > bytes * SLACK
  );
}

/** Where an event stands in its journal. */
interface EventPlace {
  readonly storedMs: number;
  /** Events before it, and their bytes. */
  readonly eventsBefore: number;
  readonly bytesBefore: number;
}

/** Rules 1 and 3. */
export function mayGo(
  limits: HistoryLimits,
  size: Pick<JournalSize, "events" | "bytes">,
  { storedMs, eventsBefore, bytesBefore }: EventPlace,
  nowMs: number,
): boolean {
  const { days = Infinity, events = Infinity, bytes = Infinity } = limits;
  const ageMs = nowMs - storedMs;
  if (ageMs < KEPT_MS_MIN) return false;
  return (
    ageMs > days * DAY_MS ||
    size.events - eventsBefore > events ||
    (size.bytes ?? 0) - bytesBefore > bytes
  );
}
