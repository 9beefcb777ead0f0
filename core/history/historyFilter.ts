/**
 * Selects turns of an agent's history by cause, outcome, time, or a text that they contain. Pure.
 * For `agents history` and the console.
 */
import { requestOf } from "../../schemas/DeliveryRecord.ts";
import type { Cause, JournalHead, TurnRecord } from "../../schemas/JournalEvent.ts";
import type { HistoryLine } from "../journal/historyLines.ts";

/** Criteria. Absent: any. */
export interface HistoryFilter {
  /** What began the turn: `webhook`, `rpc`, `schedule`, …; also `claimed` and `destroyed`. */
  readonly kind?: string | undefined;
  /** The webhook's route as declared. */
  readonly route?: string | undefined;
  /** Id of the delivery that began it, also of a part of it. */
  readonly delivery?: string | undefined;
  /** Only turns that ended with an error, or whose input is dead. */
  readonly failed?: boolean | undefined;
  /** Milliseconds since the epoch, both included. */
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
  /** A text anywhere in the turn: its input, state, statements or error. Case does not count. */
  readonly text?: string | undefined;
}

/**
 * Whether a turn matches all but the text. `turn`: undefined for an event without turns. `cause`:
 * with all that is known of it (`WholeCauses`).
 */
export function matchesTurn(
  head: JournalHead,
  turn: TurnRecord | undefined,
  cause: Partial<Cause> | undefined,
  filter: Omit<HistoryFilter, "text">,
): boolean {
  const { kind, route, delivery, failed, sinceMs = -Infinity, untilMs = Infinity } = filter;
  return (
    (kind === undefined || (turn?.cause.kind ?? head.kind) === kind) &&
    (route === undefined || cause?.route === route) &&
    (delivery === undefined || isOf(delivery, cause?.delivery)) &&
    (failed !== true || turn?.error !== undefined || turn?.dead === true) &&
    head.time >= sinceMs &&
    head.time <= untilMs
  );
}

const isOf = (wanted: string, delivery: string | undefined): boolean =>
  delivery !== undefined && (delivery === wanted || requestOf(delivery) === wanted);

/** `cause`: as for `matchesTurn`. */
export function containsText(line: HistoryLine, cause: Partial<Cause>, text: string): boolean {
  const wanted = text.toLowerCase();
  const whole = { ...line, cause: { ...line.cause, ...cause } };
  // Searched as they are, too, because JSON escapes some of their characters.
  const { error = "", sql = [] } = line;
  return [JSON.stringify(whole), whole.cause.body ?? "", error, ...sql].some((one) =>
    one.toLowerCase().includes(wanted),
  );
}
